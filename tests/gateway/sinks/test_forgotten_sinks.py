"""A sink of one batch that was forgotten begins anew, whatever number its batch has; a start that reads the log again
says the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from lakemq.settings import HOUR_MS
from tests.gateway.http_client import write_arrow
from tests.gateway.routing.harness import RoutingHarness


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[RoutingHarness]:
    """An open broker; whatever the test leaves open is closed."""
    harness = RoutingHarness(tmp_path)
    harness.open(10_000)
    yield harness
    harness.stop()


def _stage(harness: RoutingHarness, batch: int, body: bytes) -> None:
    stream = write_arrow({"body": pa.array([body])})
    harness.run(harness.broker.sinks.stage("daily", batch, "p", "t", None, stream))


def _write(harness: RoutingHarness, batch: int, body: bytes) -> bool:
    _stage(harness, batch, body)
    return harness.run(harness.broker.sinks.commit("daily", batch, ["p"], "", once=True)).new


def _forget(harness: RoutingHarness) -> None:
    harness.clock.time_ms += 25 * HOUR_MS
    harness.broker.sinks.tidy(harness.clock.time_ms)
    assert not harness.broker.sinks.state.by_name


def _read_again(harness: RoutingHarness) -> None:
    """Start from the log's frames alone."""
    harness.crash()
    for path in (harness.broker.log.directory).glob("*.idx"):
        path.unlink()
    harness.open(10_000)


def _stored(harness: RoutingHarness) -> list[bytes]:
    return [message.get("body") for message in harness.messages() if message.topic == "t"]


def test_its_next_batch_counts_for_a_start_too(harness: RoutingHarness) -> None:
    assert _write(harness, 7, b"day 1")
    _forget(harness)
    assert _write(harness, 3, b"day 2")
    live = harness.broker.sinks.state.dump()
    _read_again(harness)
    assert harness.broker.sinks.state.dump() == live
    assert _write(harness, 5, b"day 3")
    assert _stored(harness) == [b"day 1", b"day 2", b"day 3"]


def test_what_was_committed_is_stored_by_the_start_after_a_crash(
    harness: RoutingHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: the start took the commit for one of a batch that the forgotten sink had long had, and lost it."""
    assert _write(harness, 7, b"day 1")
    _forget(harness)

    async def dies(_sink: str) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(harness.broker.sinks, "_store_left", dies)
    with pytest.raises(asyncio.CancelledError):
        _write(harness, 0, b"day 2")
    _read_again(harness)
    while harness.broker.sinks.state.by_name["daily"].left:
        harness.run(asyncio.sleep(0.01))
    assert _stored(harness) == [b"day 1", b"day 2"]


def test_one_that_is_known_keeps_its_order(harness: RoutingHarness) -> None:
    assert _write(harness, 7, b"day 1")
    assert not _write(harness, 3, b"day 2")
    assert _stored(harness) == [b"day 1"]
