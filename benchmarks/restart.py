"""From the start of the process until /readyz answers 200: `python -m benchmarks.restart`.

On an empty log, after kill -9 on a large one, after kill -9 with single-message frames at its end
(what recovery reads frame by frame), and after a clean stop. The files are in the page cache;
`--cold 1` drops it before each start, which needs root and slows everything else down.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from benchmarks import closed
from benchmarks.arrow_produce import BATCH, produce, requests_of
from benchmarks.bodies import random_bodies
from benchmarks.broker import log_bytes, make_topic, positions, scratch
from benchmarks.cpu import cpu_s, rss_bytes
from benchmarks.options import sizes
from benchmarks.results import emit, say
from benchmarks.wire import ask
from lakemq.testing import GatewayProcess, start_gateway


def _drop_cache() -> None:
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("1")


def start_timed(folder: Path, what: str, cold: bool) -> GatewayProcess:
    """Start the gateway, say how long it took, and leave it running."""
    if cold:
        _drop_cache()
    size = log_bytes(folder) if folder.exists() else 0
    begin = time.monotonic()
    process = start_gateway(folder)
    ask(process.url, "GET", "/readyz")
    seconds = time.monotonic() - begin
    emit(
        f"restart, {what}",
        seconds,
        "s",
        {"log_gib": round(size / 2**30, 3), "cold": cold},
        max_position=positions(process.url)["max_position"],
        server_cpu_s=round(cpu_s(process.pid), 2),
        rss_mib=round(rss_bytes(process.pid) / 2**20, 1),
    )
    return process


def _fill(url: str, gib: float) -> None:
    make_topic(url, "arrow", 4)
    produce(url, requests_of(random_bodies, 1024), max(int(gib * 2**30 / 1024), BATCH), 2)


def _single_frames(process: GatewayProcess, seconds: float) -> dict[str, Any]:
    """One connection: each of its messages is a frame."""
    make_topic(process.url, "single", 4)
    return closed.measure(process.url, "/v1/topics/single/messages", 1, 0, seconds, process.pid)


def main() -> None:
    chosen = sizes(__doc__, gib=(10.0, 0.02), tail_seconds=(20, 1), cold=(0, 0))
    cold = bool(chosen.cold)
    with scratch() as scratch_folder:
        folder = scratch_folder / "data"
        process = start_timed(folder, "empty log", cold)
        try:
            say(f"restart: fill {chosen.gib} GiB")
            _fill(process.url, chosen.gib)
            process.kill()
            process = start_timed(folder, "after kill -9", cold)
            say("restart: single-message frames")
            tail = _single_frames(process, chosen.tail_seconds)
            process.kill()
            say(f"restart: {tail['msgs']} single-message frames at the end")
            process = start_timed(folder, "after kill -9, single-message frames at the end", cold)
            process.stop()
            process = start_timed(folder, "after a clean stop", cold)
        finally:
            process.kill()


if __name__ == "__main__":
    main()
