"""Single 1 KiB raw POSTs on 64 kept connections, and the floor under them. `python -m benchmarks.single`.

The gateway, async and sync, and the floor take turns, so that a machine that gets slower meanwhile
slows all of them. The ratio is of medians.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from benchmarks import closed, harness
from benchmarks.broker import gateway, make_topic, scratch
from benchmarks.floor import floor
from benchmarks.options import sizes
from benchmarks.results import emit, say

_COSTS = {"p50_ms", "p99_ms", "p999_ms", "errors", "server_cpu_s", "client_cpu_s", "other_cpu_s", "wall_s"} | {
    "limited_by"
}
KINDS = ("floor", "async", "sync")


def _by_harness(bench: Path, kind: str, connections: int, seconds: float, folder: Path) -> dict[str, Any]:
    extra = {"CONC": str(connections)}
    if kind == "floor":
        extra |= {"HTTP_START": harness.FLOOR, "HTTP_SETUP": ""}
    rows = harness.run_http(bench, "sync" if kind == "sync" else "async", "single", seconds, folder, extra)
    if not rows or "msgs_per_s" not in rows[0]:
        raise RuntimeError(f"the harness measured nothing: {rows}")
    return rows[0]


def _by_ourselves(kind: str, connections: int, seconds: float, folder: Path) -> dict[str, Any]:
    warm_s = max(seconds / 4, 1)
    if kind == "floor":
        with floor() as (url, pid):
            return closed.measure(url, "/v1/topics/single/messages", connections, warm_s, seconds, pid)
    with gateway(folder / "data") as process:
        make_topic(process.url, "single", 4)
        target = f"/v1/topics/single/messages?ack={kind}"
        return closed.measure(process.url, target, connections, warm_s, seconds, process.pid)


def main() -> None:
    chosen = sizes(__doc__, seconds=(10, 1), rounds=(3, 1), connections=(64, 8))
    bench = harness.script()
    rates: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for turn in range(chosen.rounds):
        for kind in KINDS:
            say(f"single: round {turn + 1}, {kind}")
            with scratch() as folder:
                if bench is not None:
                    row = _by_harness(bench, kind, chosen.connections, chosen.seconds, folder)
                else:
                    row = _by_ourselves(kind, chosen.connections, chosen.seconds, folder)
            rates[kind].append(row["msgs_per_s"])
            settings: dict[str, Any] = {"connections": chosen.connections, "body_bytes": 1024}
            settings |= {"seconds": chosen.seconds, "round": turn + 1}
            settings["generator"] = "harness" if bench is not None else "python"
            costs = {name: value for name, value in row.items() if name in _COSTS}
            emit(f"single, {kind}", row["msgs_per_s"], "messages/s", settings, **costs)
    medians = {kind: statistics.median(rates[kind]) for kind in KINDS}
    settings = {"rounds": chosen.rounds, "medians": medians}
    emit("single, async ÷ floor", medians["async"] / medians["floor"], "ratio", settings)
    emit("single, sync ÷ floor", medians["sync"] / medians["floor"], "ratio", settings)


if __name__ == "__main__":
    main()
