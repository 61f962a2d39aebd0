"""What an erasure owes is erased by schedule once the broker is back, and a run says so."""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pytest

from lakemq.jobs.log_client import LogClient
from lakemq.jobs.maintenance import owed_erasures
from lakemq.jobs.maintenance.catalogue import schedules
from lakemq.jobs.maintenance.owed_erasures import owe, owed, settle
from lakemq.jobs.maintenance.places import PLACES
from lakemq.jobs.maintenance.runner import Runner
from lakemq.jobs.tables.driver import Driver
from lakemq.settings import Maintenance
from tests.gateway.http_client import connect, produce, pull_all
from tests.jobs.lake_checks import broker_of, rows_of
from tests.jobs.maintenance.scene import Scene
from tests.ports import free_port


def test_what_is_owed_is_paid_once_its_broker_can_be_asked(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "owed-erasures" in schedules(Maintenance())
    assert scene.run("owed-erasures").detail == {"messages": 0}
    with connect(scene.gateway) as http:
        (secret, _) = produce(http, "paid", {"body": "secret", "keys": ["secret"]}, {"body": "kept"})
        scene.compact()
        here = broker_of(scene.gateway.url)["log_id"]
        places = [("broker-a", secret["position"], "paid"), ("broker-z", 7, "paid")]
        found = pa.Table.from_pylist([dict(zip(PLACES.names, each, strict=True)) for each in places], PLACES)
        owe(scene.lake, {"broker-a": here, "broker-z": "a log that is away"}, found)
        away = f"{scene.gateway.url},http://127.0.0.1:{free_port()}"
        runner = Runner(scene.spark, scene.settings, lambda: away, driver=Driver(scene.spark, scene.settings.lake))
        with monkeypatch.context() as patch:  # half a minute, by itself
            patch.setattr(owed_erasures, "LogClient", partial(LogClient, retry_s=0.5))
            waits = runner.run("owed-erasures", "schedule")
        assert (waits.result, waits.detail["messages"]) == ("done", 0)
        assert waits.detail["still_owed"] == {"broker-a": 1, "broker-z": 1}
        assert waits.detail["waits_for"]
        paid = scene.run("owed-erasures")
        assert (paid.error, paid.detail["messages"], paid.detail["topics"]) == (None, 1, {"paid": 1})
        assert (paid.detail["log"], paid.detail["still_owed"]) == ({"erased": 1, "not_there": 0}, {"broker-z": 1})
        assert paid.detail["tables"]["messages"] == 1, "it had come into the tables again"
        assert [each["body"] for each in pull_all(http, "paid")] == ["kept"]
        scene.stop()  # or its query has compacted the message before the run looks
        (late,) = produce(http, "paid", {"body": "late"})
        owe(scene.lake, {"broker-a": here}, found.slice(0, 1).set_column(1, PLACES.field(1), [[late["position"]]]))
        behind = scene.run("owed-erasures")
        assert (behind.error, behind.detail["messages"]) == (None, 0)
        assert "the lake, which does not have all that is owed of broker-a" in behind.detail["waits_for"]
    scene.start()
    assert (secret["position"],) not in rows_of(scene.lake, "messages", ["position"])
    assert list(owed(scene.lake)) == ["a log that is away", here]
    settle(scene.lake, owed(scene.lake))
