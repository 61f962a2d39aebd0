"""What it costs to know who asks: `python -m benchmarks.access`.

Single 1 KiB raw POSTs on 64 kept connections, as in `benchmarks.single`, by turns to a broker that asks nobody, and to
one that wants a token for each request, of a user with a hundred policies. Counted is the broker's processor time a
message.
"""

from __future__ import annotations

import contextlib
import statistics
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import closed
from benchmarks.broker import gateway, scratch
from benchmarks.options import sizes
from benchmarks.results import emit, say
from benchmarks.wire import ask
from lakemq.testing import GatewayProcess

TOPIC = "single"
POLICIES = 100


class Broker(NamedTuple):
    """One of the two."""

    name: str
    process: GatewayProcess
    token: str


def _user(url: str, data: Path) -> str:
    """Make a user that may produce; its token."""
    admin = (data / "admin.token").read_text("ascii").strip()
    policies: list[dict[str, Any]] = [
        {"resource": f"Topic:other-{number}*", "actions": ["Pub", "Sub"]} for number in range(POLICIES - 1)
    ]
    policies.append({"resource": f"Topic:{TOPIC}", "actions": ["Pub"]})
    ask(url, "PUT", f"/v1/topics/{TOPIC}", {"queues": 4}, admin)
    ask(url, "PUT", "/v1/users/producer", {}, admin)
    ask(url, "PUT", "/v1/users/producer/policies", {"policies": policies}, admin)
    return ask(url, "POST", "/v1/users/producer/tokens", {}, admin)["token"]


def _measure(broker: Broker, connections: int, seconds: float) -> float:
    """Broker CPU in microseconds a message."""
    target = f"/v1/topics/{TOPIC}/messages"
    process = broker.process
    found = closed.measure(process.url, target, connections, 0.0, seconds, process.pid, broker.token)
    if found["errors"]:
        raise RuntimeError(f"{broker.name}: {found['errors']} requests were refused")
    each_us = found["server_cpu_s"] / found["msgs"] * 1e6
    settings = {"connections": connections, "seconds": seconds, "body_bytes": 1024}
    emit(f"broker CPU a message, {broker.name}", each_us, "us", settings, msgs_per_s=found["msgs_per_s"])
    return each_us


def main() -> None:
    chosen = sizes(__doc__, seconds=(8, 1), rounds=(6, 1), connections=(64, 8))
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch())
        open_ = stack.enter_context(gateway(folder / "open"))
        ask(open_.url, "PUT", f"/v1/topics/{TOPIC}", {"queues": 4})
        asking = stack.enter_context(gateway(folder / "asking", auth__required="true"))
        brokers = [Broker("without", open_, ""), Broker("token", asking, _user(asking.url, folder / "asking"))]
        found: dict[str, list[float]] = {each.name: [] for each in brokers}
        for turn in range(chosen.rounds):
            for each in brokers if turn % 2 == 0 else brokers[::-1]:
                say(f"access: round {turn + 1}, {each.name}")
                found[each.name].append(_measure(each, chosen.connections, chosen.seconds))
    ratio = statistics.median([its / lone for its, lone in zip(found["token"], found["without"], strict=True)])
    emit("broker CPU a message, token against without", ratio, "", {"rounds": chosen.rounds})


if __name__ == "__main__":
    main()
