"""A process with jobs whose token is refused."""

from __future__ import annotations

import logging
import time
from threading import Event

import pytest

from lakemq.jobs.process.broker_watch import BrokerWatch
from tests.wire.guarded import guarded

WAIT_S = 300


def test_that_a_broker_refuses_the_token_is_said_once(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LAKEMQ_TOKEN", "LAKEMQ_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    caplog.set_level(logging.WARNING)
    stop, end_s = Event(), time.monotonic() + WAIT_S
    with guarded() as peer:
        BrokerWatch(peer.url, stop).start()
        while len(peer.heard) < 2:
            assert time.monotonic() < end_s
            time.sleep(0.02)
        stop.set()
    said = [each.getMessage() for each in caplog.records if "who asks" in each.getMessage()]
    assert len(said) == 1
    assert "put one into LAKEMQ_TOKEN" in said[0]
