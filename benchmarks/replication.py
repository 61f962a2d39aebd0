"""What a second replica costs a write, and how quickly an empty one catches up. `python -m benchmarks.replication`.

Single 1 KiB raw POSTs: a lone broker and one of two replicas take turns, each acknowledging at once and with
`ack=sync`, which is on its disk for the lone one and on both disks for the other. All share the machine's cores, and
its disk. The ratios are of medians.
"""

from __future__ import annotations

import statistics
import time
from pathlib import Path
from typing import Any

from benchmarks import closed
from benchmarks.arrow_produce import BATCH, produce, requests_of
from benchmarks.bodies import random_bodies
from benchmarks.broker import gateway, log_bytes, make_topic, positions, scratch, wait_flushed
from benchmarks.disk import emit_write_rate
from benchmarks.options import sizes
from benchmarks.replicated import BOTH, two_replicas, wait_in_sync
from benchmarks.results import emit, say
from lakemq.testing import GatewayProcess

TOPIC = "single"
COSTS = {"p50_ms", "p99_ms", "p999_ms", "errors", "server_cpu_s", "client_cpu_s", "other_cpu_s", "wall_s", "limited_by"}
WAYS = (("lone", "async"), ("two replicas", "async"), ("lone", "sync"), ("two replicas", "sync"))


def _singles(broker: str, ack: str, connections: int, seconds: float, folder: Path) -> dict[str, Any]:
    def measure(process: GatewayProcess) -> dict[str, Any]:
        make_topic(process.url, TOPIC, 4)
        target = f"/v1/topics/{TOPIC}/messages?ack={ack}"
        return closed.measure(process.url, target, connections, max(seconds / 4, 1), seconds, process.pid)

    if broker == "lone":
        with gateway(folder / "data") as process:
            return measure(process)
    with two_replicas(folder) as (leader, _):
        found = measure(leader)
        if positions(leader.url)["in_sync"] != BOTH:
            raise RuntimeError("the follower fell out of sync: the figure would be that of a lone broker")
        return found


def _cost(connections: int, rounds: int, seconds: float) -> None:
    rates: dict[tuple[str, str], list[float]] = {way: [] for way in WAYS}
    for turn in range(rounds):
        for broker, ack in WAYS:
            say(f"replication: {connections} connections, round {turn + 1}, {broker}, {ack}")
            with scratch() as folder:
                row = _singles(broker, ack, connections, seconds, folder)
            rates[broker, ack].append(row["msgs_per_s"])
            settings = {"connections": connections, "body_bytes": 1024, "seconds": seconds, "round": turn + 1}
            costs = {name: value for name, value in row.items() if name in COSTS}
            emit(f"single, {broker}, {ack}", row["msgs_per_s"], "messages/s", settings, **costs)
    medians = {way: statistics.median(rates[way]) for way in WAYS}
    settings = {"connections": connections, "rounds": rounds}
    for ack in ("async", "sync"):
        ratio = medians["two replicas", ack] / medians["lone", ack]
        emit(f"single, {ack}, two replicas ÷ lone", ratio, "ratio", settings)


def _catch_up(mebibytes: int) -> None:
    """A follower is emptied, and fetches all of the log anew."""
    with scratch() as folder:
        emit_write_rate(folder, mebibytes)
        with gateway(folder / "lone" / "data", broker__name="broker-a") as process:
            make_topic(process.url, "arrow", 4)
            produce(process.url, requests_of(random_bodies, 1024), mebibytes * 1024 // BATCH * BATCH, 2)
            wait_flushed(process.url)
            log = log_bytes(folder / "lone")
            begin = time.monotonic()
            with gateway(folder / "1", broker__replica=1, fleet__primary=process.url):
                wait_in_sync(process)
                took_s = time.monotonic() - begin
    emit("catch-up of an empty follower", log / took_s / 1e6, "MB/s", {"log_bytes": log, "seconds": round(took_s, 2)})


def main() -> None:
    chosen = sizes(__doc__, seconds=(10, 1), rounds=(3, 1), connections=(64, 8), mebibytes=(2048, 16))
    _cost(chosen.connections, chosen.rounds, chosen.seconds)
    _cost(1, chosen.rounds, chosen.seconds)
    _catch_up(chosen.mebibytes)


if __name__ == "__main__":
    main()
