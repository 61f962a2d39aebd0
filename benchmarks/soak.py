"""What grows while all jobs run and messages are delayed: `python -m benchmarks.soak --minutes 60`.

Single POSTs on a schedule, each due 7.3 s later; nobody receives. A line every half minute: the cores that the gateway
and the jobs have used meanwhile; of the jobs' processes together the descriptors, threads and memory (proportional
set size: what several share counts once), by kind of process, and Java's by `jstat`, where there is a JDK; of the
gateway the same, and what its memory is made of (`lakemq_memory_bytes`); and the files of the lake, with its
checkpoints. `--jobs 0`: the gateway alone, so that an hour's messages may come in minutes, at a higher `--rate`; then
half a minute follows in which nothing comes.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

from benchmarks import paced
from benchmarks.broker import gateway, make_topic, scratch
from benchmarks.cpu import cpu_s, pss_bytes, tree
from benchmarks.jobs import all_jobs
from benchmarks.options import sizes
from benchmarks.results import emit, say
from benchmarks.wire import Connection, build

DELAY_MS = 7_300
STEP_S = 30.0
_PROC = Path("/proc")


def _entries(pid: int, folder: str) -> int:
    try:
        return sum(1 for _ in (_PROC / str(pid) / folder).iterdir())
    except OSError:  # it has ended meanwhile
        return 0


def _held(pid: int, name: str) -> dict[str, int]:
    """What the process and its descendants hold."""
    pids = tree(pid)
    return {
        f"{name}_descriptors": sum(_entries(each, "fd") for each in pids),
        f"{name}_threads": sum(_entries(each, "task") for each in pids),
        f"{name}_pss_mib": sum(map(pss_bytes, pids)) // 2**20,
    }


def _made_of(url: str) -> dict[str, float]:
    """What the gateway's memory is made of, in MiB."""
    connection = Connection(url)
    text = bytes(connection.exchange(build("GET", "/metrics")).body).decode()
    connection.close()
    found = re.findall(r'^lakemq_memory_bytes\{part="(\w+)"\} (\S+)$', text, re.MULTILINE)
    return {part: round(float(size) / 2**20, 1) for part, size in found}


def _is_java(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return (_PROC / str(pid) / "cmdline").read_bytes().split(b"\0")[0].endswith(b"java")
    return False


def _by_kind(pid: int) -> dict[str, int]:
    """The memory of the process and its descendants in MiB (proportional set size), by what they are."""
    sizes: dict[str, int] = {}
    for each in tree(pid):
        kind = "java" if _is_java(each) else "python"
        sizes[kind] = sizes.get(kind, 0) + pss_bytes(each)
    return {kind: size // 2**20 for kind, size in sizes.items()}


def _java(pid: int) -> dict[str, float]:
    """Of the Java process among these, in MiB: its heap, what of it is in use, what of that has lived for long; and the
    classes. Nothing where there is no `jstat`, which comes with a JDK."""
    jstat = shutil.which("jstat")
    javas = [each for each in tree(pid) if _is_java(each)]
    if jstat is None or not javas:
        return {}
    command = [jstat, "-gc", str(javas[0])]
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    if len(lines) < 2:
        return {}
    found = dict(zip(lines[0].split(), lines[1].split(), strict=True))

    def mib(*names: str) -> float:
        return round(sum(float(found[name]) for name in names) / 1024, 1)

    heap, used = mib("S0C", "S1C", "EC", "OC"), mib("S0U", "S1U", "EU", "OU")
    return {"heap": heap, "heap_used": used, "old_used": mib("OU"), "classes": mib("MC")}


def files_of(folder: Path) -> int:
    """How many are in it, at any depth."""
    return sum(len(files) for _, _, files in os.walk(folder))


def _watch(url: str, pids: dict[str, int], lake: Path, sender: Any, settings: dict[str, Any]) -> None:
    begin = before_s = time.monotonic()
    before = {name: cpu_s(pid) for name, pid in pids.items()}
    while sender.poll() is None:
        time.sleep(min(STEP_S, max(settings["seconds"] / 2, 1)))
        now_s, now = time.monotonic(), {name: cpu_s(pid) for name, pid in pids.items()}
        cores = {f"{name}_cores": round((now[name] - before[name]) / (now_s - before_s), 3) for name in pids}
        held: dict[str, Any] = {key: value for name, pid in pids.items() for key, value in _held(pid, name).items()}
        before_s, before = now_s, now
        more: dict[str, Any] = {"gateway_mib": _made_of(url), "lake_files": files_of(lake)}
        if "jobs" in pids:
            more |= {"jobs_mib": _by_kind(pids["jobs"]), "java_mib": _java(pids["jobs"])}
        emit("soak", now_s - begin, "s", settings, **cores, **held, **more)


def main() -> None:
    chosen = sizes(__doc__, minutes=(10.0, 0.05), rate=(200, 50), jobs=(1, 1), segment_mib=(1024, 1024))
    seconds = chosen.minutes * 60
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch())
        segment_bytes = chosen.segment_mib * 2**20
        process = stack.enter_context(gateway(folder / "data", storage__segment_bytes=segment_bytes))
        make_topic(process.url, "soak", 4)
        pids = {"gateway": process.pid}
        jobs = stack.enter_context(all_jobs(process.url, folder / "lake")) if chosen.jobs else None
        if jobs is not None:
            say(f"soak: all jobs, ready after {jobs.ready_s:.0f} s")
            pids["jobs"] = jobs.pid
        sender = paced.start(process.url, "soak", chosen.rate, seconds, lakemq_delay_ms=str(DELAY_MS))
        settings = {"rate": chosen.rate, "seconds": seconds, "delay_ms": DELAY_MS, "segment_mib": chosen.segment_mib}
        _watch(process.url, pids, folder / "lake", sender, settings)
        sent = json.loads(sender.communicate(timeout=60)[0])
        if jobs is None:
            time.sleep(min(STEP_S, seconds))
        emit("soak, acknowledged", sent["ack_p50_ms"], "ms", settings, **sent, gateway_mib=_made_of(process.url))
        if jobs is not None:
            jobs.check()


if __name__ == "__main__":
    main()
