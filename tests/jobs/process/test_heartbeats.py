"""What brokers are told of a query: how far it has decided, by each one's own clock."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event
from typing import Any, NamedTuple

import pytest

from lakemq.jobs.log_client import LogClient
from lakemq.jobs.process import broker_watch
from lakemq.jobs.process.broker_watch import BrokerWatch
from lakemq.jobs.source.plan import StreamOffset
from tests.client.consuming import wait_until

ADDRESSES = {"http://127.0.0.1:1": "a", "http://127.0.0.1:2": "b"}


class Job(NamedTuple):
    reached: StreamOffset | None
    topics: tuple[str, ...] = ()


@pytest.mark.parametrize(
    ("reached", "told"),
    [
        (StreamOffset({"a": 5, "b": 7}, 900_000, clocks={"a": 900_000, "b": 1_000}), {"a": 900_000, "b": 1_000}),
        (StreamOffset({"a": 5, "b": 7}, 900_000, clocks={"a": 900_000}), {"a": 900_000, "b": 0}),
        (StreamOffset({"a": 5, "b": 7}, 900_000), {"a": 900_000, "b": 900_000}),
    ],
    ids=["each has a clock", "one has said nothing yet", "without ticks"],
)
def test_a_broker_is_told_what_is_decided_by_its_own_clock(
    monkeypatch: pytest.MonkeyPatch, reached: StreamOffset, told: dict[str, int]
) -> None:
    """One whose clock is behind believed else that nothing of its own is left to decide."""
    found: dict[str, int] = {}

    def put_jobs(client: LogClient, beats: Sequence[dict[str, Any]], *_: object) -> dict[str, Any]:
        name = ADDRESSES[client.address]
        for beat in beats:
            if "clock_ms" in beat:
                found[name] = beat["clock_ms"]
        return {"broker": name}

    monkeypatch.setattr(LogClient, "put_jobs", put_jobs)
    monkeypatch.setattr(broker_watch, "BEAT_S", 0.05)
    stop = Event()
    watch = BrokerWatch(",".join(ADDRESSES), stop)
    try:
        with watch.telling(("delay",), Job(reached)):
            watch.start()
            wait_until(lambda: len(found) == 2)
    finally:
        stop.set()
    assert found == told
