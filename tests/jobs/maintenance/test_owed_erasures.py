"""Logs that an erasure could not ask: asked by the next that can, and no other log in their place."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from pyspark.sql import SparkSession

from lakemq.jobs.maintenance.owed_erasures import erase_owed, owe, owed
from lakemq.jobs.maintenance.work import Work
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.holes import DROPPED, ERASED, Hole, append_holes
from lakemq.settings import Lake, Settings
from lakemq.testing import start_gateway
from tests.gateway.http_client import connect, produce, pull_all
from tests.jobs.lake_checks import broker_of


def test_a_broker_that_was_away_is_asked_once_it_is_back(tmp_path: Path) -> None:
    lake, session = tmp_path / "lake", cast("SparkSession", None)
    with start_gateway(tmp_path / "log") as gateway, connect(gateway) as http:
        work = Work(session, Settings(lake=Lake(dir=lake)), gateway.url, driver=Driver(session, Lake(dir=lake)))
        sent = [each["position"] for each in produce(http, "away", *"abcde")]
        assert erase_owed(work) == {}
        append_holes(lake, "broker-a", [Hole(sent[0], sent[1])], ERASED)
        append_holes(lake, "broker-a", [Hole(sent[1], sent[1]), Hole(sent[3], sent[3] + 1_000_000)], ERASED)
        append_holes(lake, "broker-a", [Hole(sent[2], sent[2])], DROPPED)
        owe(lake, {"broker-a": "another log", "broker-z": "away still"})
        assert erase_owed(work) == {}, "its positions mean other messages"
        assert owed(lake) == {"broker-z": "away still"}
        owe(lake, {"broker-a": broker_of(gateway.url)["log_id"]})
        assert erase_owed(work) == {"broker-a": 4}
        assert [each["body"] for each in pull_all(http, "away")] == ["c"]
        assert (owed(lake), erase_owed(work)) == ({"broker-z": "away still"}, {})
