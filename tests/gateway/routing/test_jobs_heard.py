"""Which jobs are alive, as the gateway hears of them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from lakemq.gateway.routing.jobs import ALIVE_MS, NAMES_MAX, Heartbeat
from tests.gateway.routing.harness import RoutingHarness


def test_who_goes_silent_is_said_once_and_so_is_who_is_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "lakemq.gateway.routing.jobs")
    harness = RoutingHarness(tmp_path)
    harness.open(0)
    harness.alive = ()
    try:
        jobs = harness.broker.router.jobs
        jobs.hear([Heartbeat("delay", 0, 1_000, None)])
        assert (jobs.decided_up_to("delay", 10), jobs.decided_up_to("retry", 10)) == (1_010, 0)
        assert harness.run(harness.broker.degraded()) == []
        for _ in range(3):
            harness.clock.time_ms += ALIVE_MS + 1
            harness.decide_overdue()
        assert jobs.decided_up_to("delay", 10) == 0
        assert harness.run(harness.broker.degraded()) == ["the job delay is silent"]
        assert harness.run(harness.broker.describe())["jobs"]["delay"]["alive"] is False
        # A wall clock that jumps makes nobody dead, nor alive.
        jobs.hear([Heartbeat("delay", 0, 1_000, None)])
        harness.clock.jumped_ms = 10 * ALIVE_MS
        harness.decide_overdue()
        assert harness.run(harness.broker.degraded()) == []
        assert [record.getMessage() for record in caplog.records if record.name == "lakemq.gateway.routing.jobs"] == [
            "the job delay has been silent for 10 s",
            "the job delay is back",
        ]
        jobs.hear(Heartbeat(f"job-{number}", None, 0, None) for number in range(200))
        assert len(harness.run(jobs.describe())) == NAMES_MAX
    finally:
        harness.stop()
