"""Delays, alone in the wheel: the gateways here have no lead, so they anticipate nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession

from lakemq.jobs.lake.query import CHECKPOINTS
from lakemq.testing import start_gateway
from tests.gateway.http_client import connect, produce, pull_all
from tests.jobs.routing.conftest import bodies, kept_running, running, wait_until

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NO_LEAD: dict[str, Any] = {"routing__lead_ms": 0, "routing__grace_ms": -1, "storage__retention_ms": 1000 * DAY_MS}


def delayed(*delays_ms: int) -> list[dict[str, Any]]:
    return [{"body": str(delay_ms), "delay_ms": delay_ms} for delay_ms in delays_ms]


@pytest.mark.long
def test_messages_come_once_whichever_windows_they_waited_in(spark: SparkSession, tmp_path: Path) -> None:
    """Due within seconds, a minute, hours, days and a month; meanwhile the gateway's clock jumps, mostly by more
    than a run catches up with."""
    delays = [1, 500, 2_500, 100_000, 101_000, 7_000_000, 100 * HOUR_MS, 100 * HOUR_MS + 1, 30 * DAY_MS]
    data = tmp_path / "data"
    with start_gateway(data, **NO_LEAD) as gateway, connect(gateway) as http:
        port = httpx.URL(gateway.url).port
        with kept_running(spark, gateway.url, tmp_path / "lake", "delay"):
            produce(http, "t", *delayed(*delays))
            wait_until(lambda: len(bodies(http, "t")) >= 3)
            gateway.kill()
            for hours, come in ((1, 5), (3, 6), (101, 8), (31 * 24, 9)):
                again = start_gateway(data, hours * HOUR_MS, gateway__port=port, **NO_LEAD)
                with again as ahead, connect(ahead) as http_ahead:
                    wait_until(lambda http=http_ahead, come=come: len(bodies(http, "t")) >= come)
                    messages = pull_all(http_ahead, "t")
                    assert sorted(int(message["body"]) for message in messages) == delays[:come]
                    assert all(message["store_time_ms"] >= message["deliver_at_ms"] for message in messages)
                    ahead.kill()


def test_a_lost_checkpoint_loses_no_delay_and_doubles_none(spark: SparkSession, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    later = [HOUR_MS + 8_000, HOUR_MS + 9_000]
    with start_gateway(tmp_path / "data", **NO_LEAD) as gateway, connect(gateway) as http:
        with running(spark, gateway.url, lake, "delay"):
            produce(http, "t", *delayed(1, 2, *later))
            wait_until(lambda: len(bodies(http, "t")) == 2)
        gateway.kill()
    shutil.rmtree(lake / CHECKPOINTS)
    left = [lake / CHECKPOINTS / "check" / f"999999999-{'a' * 32}", lake / CHECKPOINTS / "lake" / "mine-own"]
    for folder in left:
        folder.mkdir(parents=True)
    with start_gateway(tmp_path / "data", HOUR_MS, **NO_LEAD) as gateway, connect(gateway) as http:
        produce(http, "t", *delayed(3, 4))
        with running(spark, gateway.url, lake, "delay"):
            wait_until(lambda: len(bodies(http, "t")) == 6)
            assert http.get("/v1/routing").json()["delay"]["waiting"] == 0
            assert [folder.exists() for folder in left] == [False, True], "that of a process that is gone, of any job"
        with running(spark, gateway.url, lake, "delay"):
            assert bodies(http, "t") == sorted(map(str, [1, 2, 3, 4, *later]))


def test_two_processes_that_decide_the_same_deliver_once(spark: SparkSession, tmp_path: Path) -> None:
    with start_gateway(tmp_path / "data", **NO_LEAD) as gateway, connect(gateway) as http:
        with running(spark, gateway.url, tmp_path / "lake", "delay", "delay"):
            produce(http, "t", *delayed(*range(1, 100, 3)))
            wait_until(lambda: http.get("/v1/routing").json()["delay"]["waiting"] == 0)
        assert len(bodies(http, "t")) == len(range(1, 100, 3))
