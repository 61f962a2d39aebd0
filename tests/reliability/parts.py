"""What the long forms run over and over: parts of a minute or two, each with a seed of its own, in a process of its
own, whose death is a finding too."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.reliability.results import RUNS, append, read, totals

SHOWN_MAX = 10
SAID_CHARACTERS_MAX = 2_000
FAILURES_MAX = 3
"""A part that fails so often in a row is left out: it would fill the results."""
LATE_S_MAX = 1_800.0
"""A part that goes on for so long after ten times its seconds has hung."""


class Done(NamedTuple):
    """What a part did, and what it found."""

    counts: dict[str, int]
    findings: Sequence[object] = ()


class Part(NamedTuple):
    """`run(seed, seconds)` goes on for about so long. `counted` of the results is what `goal` is of;
    `why_not`: why it can't run here. `goes_on`: its seeds are the numbers of cases, all of which are done once,
    one after the other, as many in a run as it counts."""

    name: str
    run: Callable[[int, float], Done]
    counted: str
    goal: int
    why_not: Callable[[], str | None] = lambda: None
    goes_on: bool = False


def main(program: str, about: str, parts: Mapping[str, Part]) -> int:
    """The command: each part in turn, until the time is over or all goals are reached."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=about)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--part-seconds", type=float, default=60.0, help="how long each part runs at a time")
    parser.add_argument("--seed", type=int, default=None, help="of the first part; the next ones count on")
    parser.add_argument("--parts", default=",".join(parts), help=f"of {','.join(parts)}")
    parser.add_argument("--to-goals", action="store_true", help="stop a part when the results reach its goal")
    parser.add_argument("--results", type=Path, default=RUNS)
    parser.add_argument("--answer", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    names: list[str] = arguments.parts.split(",")
    if unknown := set(names) - parts.keys():
        parser.error(f"there is no part {', '.join(sorted(unknown))}, only {', '.join(parts)}")
    if arguments.answer is not None:
        _do(parts[names[0]], arguments.seed, arguments.part_seconds, arguments.answer)
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # the part that runs ends, too
    left = {name: parts[name] for name in names}
    for name in [name for name, part in left.items() if part.why_not() is not None]:
        sys.stdout.write(f"{name} is left out: {left.pop(name).why_not()}\n")
    seed: int = random.SystemRandom().randrange(2**31) if arguments.seed is None else arguments.seed
    return int(_rounds(program, left, seed, arguments))


def _rounds(program: str, left: dict[str, Part], seed: int, arguments: argparse.Namespace) -> bool:
    """Each part in turn; whether any of them has failed."""
    end = time.monotonic() + arguments.minutes * 60
    failed = False
    failures: Counter[str] = Counter()
    while left:
        for name, part in list(left.items()):
            if (
                arguments.to_goals
                and totals(read(arguments.results)).get(part.name, {}).get(part.counted, 0) >= part.goal
            ):
                del left[name]
                continue
            first = seed
            if part.goes_on:
                first = _next_case(part, arguments.results)
                if first >= part.goal:
                    del left[name]
                    continue
            seconds = min(arguments.part_seconds, arguments.minutes * 60)
            begun = time.monotonic()
            done = run_apart(program, name, first, seconds)
            failures[name] = failures[name] + 1 if done.findings else 0
            failed |= _note(part, first, time.monotonic() - begun, done, arguments.results)
            seed += 1
            if failures[name] == FAILURES_MAX:
                sys.stdout.write(f"{left.pop(name).name} is left out from here on: it fails again and again\n")
            if time.monotonic() >= end:
                return failed
    return failed


def _next_case(part: Part, results: Path) -> int:
    """The first case that no run has done; one that has failed has been done, too."""
    done = [line for line in read(results) if line["run"] == part.name]
    at = 0
    for line in sorted(done, key=lambda line: line["seed"]):
        if line["seed"] <= at:
            at = max(at, line["seed"] + line["counts"].get(part.counted, 0))
    return at


def run_apart(program: str, name: str, seed: int, seconds: float, late_s: float = LATE_S_MAX) -> Done:
    """Run a part in a process of its own, which ends with all that it has started, and leaves nothing behind."""
    with tempfile.TemporaryDirectory(prefix="lakemq-part-", ignore_cleanup_errors=True) as folder:
        answer, said = Path(folder) / "answer.json", Path(folder) / "said"
        command = [sys.executable, "-m", program, "--parts", name, "--seed", str(seed)]
        command += ["--part-seconds", str(seconds), "--answer", str(answer)]
        with said.open("wb") as output:
            environment = os.environ | {"TMPDIR": folder}
            process = subprocess.Popen(command, stderr=output, env=environment, start_new_session=True)
            try:
                code = process.wait(seconds * 10 + late_s)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                _end(process, Path(folder))
        words = said.read_text(errors="replace")[-SAID_CHARACTERS_MAX:]
        found = json.loads(answer.read_text()) if code == 0 else {}
    if code == 0 and not found["findings"]:
        return Done(found["counts"])
    sys.stderr.write(words)
    if code == 0:
        return Done(found["counts"], found["findings"])
    ended = "did not end" if code is None else f"ended with exit code {code}"
    return Done({}, [f"the part {ended}; its last words: {words}"])


def _end(process: subprocess.Popen[bytes], folder: Path) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for line in Path("/proc/mounts").read_text().splitlines():
        mount = line.split()[1]
        if mount.startswith(f"{folder}/"):
            subprocess.run(["umount", "-l", mount], check=False)


def _do(part: Part, seed: int, seconds: float, answer: Path) -> None:
    """Run a part in this process."""
    try:
        done = part.run(seed, seconds)
    except Exception as error:  # noqa: BLE001  whatever it is, it is what the run has found
        traceback.print_exc()
        done = Done({}, [f"{type(error).__name__}: {error}"[:SAID_CHARACTERS_MAX]])
    answer.write_text(json.dumps({"counts": done.counts, "findings": [str(each) for each in done.findings]}))


def _note(part: Part, seed: int, seconds: float, done: Done, results: Path) -> bool:
    findings = [str(each) for each in done.findings]
    append(part.name, seed, seconds, done.counts, findings, results)
    sys.stdout.write(f"{part.name}, seed {seed}: {done.counts}\n")
    sys.stdout.writelines(f"  {finding}\n" for finding in findings[:SHOWN_MAX])
    sys.stdout.flush()
    return bool(findings)
