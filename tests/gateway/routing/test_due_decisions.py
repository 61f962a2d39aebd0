"""Decisions that are due when they come."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakemq.gateway.routing.decisions import Posted
from lakemq.model.message import Draft
from tests.gateway.routing.harness import TOPIC, RoutingHarness


def test_what_was_answered_as_delivered_is_in_the_log_however_large_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakemq.gateway.effects.executor.READ_BYTES_MAX", 10_000)
    harness = RoutingHarness(tmp_path)
    harness.open(0)
    try:
        waiting = [harness.produce(Draft(bytes([n]) * 9_000, delay_ms=1_000)) for n in range(100)]
        harness.clock.time_ms += 2_000
        harness.post([Posted(position, "deliver", None) for position in waiting])
        harness.crash()
        harness.open(0)
        delivered = [message.get("cause") for message in harness.messages() if message.topic == TOPIC]
        assert sorted(delivered) == waiting
    finally:
        harness.stop()
