"""What a message costs one broker and another, by turns: single 1 KiB raw POSTs on kept connections, as in
`benchmarks.single`. Counted is the broker's processor time."""

from __future__ import annotations

import statistics
from argparse import Namespace
from typing import NamedTuple

from benchmarks import closed
from benchmarks.results import emit, say
from lakemq.testing import GatewayProcess

TOPIC = "single"
WARM_S = 1.0
"""Before each round: connections are made, and tokens looked at, once."""


class Broker(NamedTuple):
    """One of the two. `token`: empty, where it asks for none."""

    name: str
    process: GatewayProcess
    token: str = ""


def compare(what: str, lone: Broker, other: Broker, chosen: Namespace) -> None:
    """Rounds of both by turns, and the median of their ratios."""
    found: dict[str, list[float]] = {lone.name: [], other.name: []}
    for turn in range(chosen.rounds):
        for each in (lone, other) if turn % 2 == 0 else (other, lone):
            say(f"{what}: round {turn + 1}, {each.name}")
            found[each.name].append(_measure(each, chosen.connections, chosen.seconds))
    pairs = zip(found[other.name], found[lone.name], strict=True)
    ratio = statistics.median([its / alone for its, alone in pairs])
    emit(f"broker CPU a message, {other.name} against {lone.name}", ratio, "", {"rounds": chosen.rounds})


def _measure(broker: Broker, connections: int, seconds: float) -> float:
    """Broker CPU in microseconds a message."""
    target, process = f"/v1/topics/{TOPIC}/messages", broker.process
    found = closed.measure(process.url, target, connections, WARM_S, seconds, process.pid, broker.token)
    if found["errors"]:
        raise RuntimeError(f"{broker.name}: {found['errors']} requests were refused")
    each_us = found["window_cpu_s"] / found["msgs"] * 1e6
    settings = {"connections": connections, "seconds": seconds, "body_bytes": 1024}
    emit(f"broker CPU a message, {broker.name}", each_us, "us", settings, msgs_per_s=found["msgs_per_s"])
    return each_us
