"""The tables `scheduled` and `transactions`, from what a real gateway has in its log."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from pyspark.sql import SparkSession

from lakemq.jobs.lake.query import LakeQuery
from lakemq.jobs.tables.driver import Driver
from lakemq.settings import Lake, Settings
from lakemq.storage.state.routing_state import position_of
from lakemq.testing import GatewayProcess, start_gateway
from tests.as_administrator import AsAdministrator
from tests.gateway.http_client import TLS
from tests.gateway.routing.asking import half_id, wait_until
from tests.jobs.conftest import WAIT_S, produce_to
from tests.jobs.empty_lake import put_tables
from tests.jobs.lake_checks import rows_of, wait_until_compacted
from tests.jobs.streams import LakeRun

HOUR_MS = 3_600_000
ALONE: dict[str, Any] = {"routing__lead_ms": 600_000, "routing__grace_ms": -1}
"""There is no routing query: what the gateway doesn't anticipate never comes, however slow the test is."""


def ask(url: str, method: str, path: str, content: object = None) -> Any:
    """What the gateway answers; it must be a 200."""
    with httpx.Client(base_url=url, timeout=WAIT_S, trust_env=False, verify=TLS, auth=AsAdministrator()) as http:
        answer = http.request(method, path, json=content)
        assert answer.status_code == 200, answer.text
        return answer.json()


def wait_for_message(url: str, topic: str, offset: int) -> dict[str, Any]:
    path = f"/v1/topics/{quote(topic, safe='')}/queues/0/messages?offset={offset}&max=1&wait_ms=60000"
    return ask(url, "GET", path)["messages"][0]


class Scene:
    """A gateway of its own with a topic of one queue, and a lake."""

    def __init__(self, spark: SparkSession, gateway: GatewayProcess, lake: Path) -> None:
        self.url, self.lake = gateway.url, lake
        self._spark = spark
        self.start()

    def start(self) -> None:
        settings = Settings(lake=Lake(dir=self.lake, trigger_ms=0))
        self._run = LakeRun(
            lambda: LakeQuery(self._spark, settings, self.url, driver=Driver(self._spark, settings.lake))
        )

    def produce(self, *messages: dict[str, Any]) -> list[str]:
        return [each["message_id"] for each in produce_to(self.url, "orders", messages)]

    def begin(self, count: int) -> list[str]:
        messages = [{"body": str(each), "queue_id": 0} for each in range(count)]
        path = "/v1/topics/orders/transactions?producer_group=pg"
        return [each["transaction_id"] for each in ask(self.url, "POST", path, {"messages": messages})["transactions"]]

    def resolve(self, transaction_id: str, resolution: str) -> None:
        content = {"producer_group": "pg", "resolution": resolution}
        ask(self.url, "POST", f"/v1/transactions/{transaction_id}", content)

    def decide(self, message_id: str, action: str) -> None:
        content: dict[str, Any] = {"cause": [position_of(message_id)], "action": [action], "due_ms": [None]}
        broker = ask(self.url, "GET", "/v1/broker")
        content |= {"log_id": broker["log_id"], "epoch": broker["epoch"]}
        assert ask(self.url, "POST", "/v1/log/decisions", content)["accepted"] == 1

    def compact(self) -> None:
        wait_until_compacted(self.url, self._run.is_alive)

    def settle(self, waiting: int) -> None:
        """Wait until all is delivered but so many, and in the lake: then nobody writes any more."""
        wait_until(lambda: ask(self.url, "GET", "/v1/routing")["delay"]["waiting"] == waiting)
        self.compact()

    def stop(self) -> None:
        self._run.stop()

    def scheduled(self) -> dict[str, tuple[Any, ...]]:
        columns = ["message_id", "state", "topic", "kind", "delivered_message_id"]
        return {row[0]: row[1:] for row in rows_of(self.lake, "scheduled", columns)}

    def history(self, transaction_id: str) -> list[tuple[Any, ...]]:
        columns = ["position", "transaction_id", "event", "state", "by", "check_times"]
        return [row[2:] for row in rows_of(self.lake, "transactions", columns) if row[1] == half_id(transaction_id)]


@pytest.fixture
def scene(spark: SparkSession, tmp_path: Path) -> Iterator[Scene]:
    with start_gateway(tmp_path / "log", **ALONE) as gateway:
        put_tables(spark, tmp_path / "lake")
        opened = Scene(spark, gateway, tmp_path / "lake")
        try:
            yield opened
        finally:
            opened.stop()


def test_a_scheduled_message_is_a_row_from_its_schedule_to_its_end(scene: Scene) -> None:
    later, recalled = scene.produce({"body": "a", "delay_ms": HOUR_MS}, {"body": "b", "delay_ms": 2 * HOUR_MS})
    (soon,) = scene.produce({"body": "c", "queue_id": 0, "delay_ms": 50})
    delivered = wait_for_message(scene.url, "orders", 0)
    nack = {"messages": [{"message_id": delivered["message_id"], "delay_level": 18}]}
    ask(scene.url, "POST", "/v1/groups/g/nacks", nack)
    scene.compact()
    found = scene.scheduled()
    assert found[later] == ("waiting", "orders", "delay", None)
    assert found[soon] == ("delivered", "orders", "delay", delivered["message_id"])
    (retry,) = found.keys() - {later, recalled, soon}
    assert found[retry] == ("waiting", "%RETRY%g", "retry", None)
    ask(scene.url, "DELETE", f"/v1/messages/{recalled}")
    scene.produce({"body": "plain"})
    scene.compact()
    assert scene.scheduled() == found | {recalled: ("recalled", "orders", "delay", None)}


def test_a_transaction_is_its_history(scene: Scene) -> None:
    committed, rolled_back, checked, given_up = scene.begin(4)
    scene.resolve(committed, "commit")
    scene.resolve(rolled_back, "rollback")
    scene.compact()
    scene.resolve(checked, "unknown")
    scene.decide(checked, "check")
    scene.resolve(checked, "commit")
    scene.decide(given_up, "give_up")
    scene.compact()
    begun = ("half", "half", "producer", None)
    end = [("commit", None, "producer", None), ("committed", "committed", "broker", None)]
    assert scene.history(committed)[0] == begun
    assert sorted(scene.history(committed)[1:]) == end
    assert scene.history(rolled_back) == [begun, ("rollback", "rolled_back", "producer", None)]
    story = scene.history(checked)
    assert story[:3] == [begun, ("unknown", None, "producer", None), ("check", "checked", "broker", 1)]
    assert sorted(story[3:]) == end
    assert scene.history(given_up)[1][:3] == ("give_up", "given_up", "broker")
    rows = rows_of(scene.lake, "transactions", ["position", "transaction_id", "message_id"])
    copies = {row[1:] for row in rows if row[2] is not None}
    messages = [wait_for_message(scene.url, "orders", offset) for offset in (0, 1)]
    assert copies == {(half_id(each["transaction_id"]), each["message_id"]) for each in messages}


def test_effects_are_found_among_messages_that_are_none(scene: Scene) -> None:
    """Nothing flows for a while, so the tables are passed over; then it does."""
    for _ in range(2):
        scene.produce({"body": "plain", "queue_id": 1})
        scene.compact()
    (transaction,) = scene.begin(1)
    (soon,) = scene.produce({"body": "c", "queue_id": 0, "delay_ms": 5_000})
    scene.compact()
    for _ in range(2):
        scene.produce({"body": "plain", "queue_id": 1})
        scene.compact()
    assert scene.scheduled().keys() == {soon}
    wait_for_message(scene.url, "orders", 0)
    scene.decide(transaction, "rollback")
    scene.compact()
    assert scene.scheduled()[soon][0] == "delivered"
    assert scene.history(transaction)[1] == ("rolled_back", "rolled_back", "broker", None)


def test_tables_that_are_behind_or_missing_are_filled_again_and_nothing_doubles(scene: Scene) -> None:
    """What a kill between the commits of a batch leaves, and worse."""
    messages = [{"body": str(each), "delay_ms": delay} for each, delay in enumerate([50, HOUR_MS] * 5)]
    ids = scene.produce(*messages)
    begun = scene.begin(6)
    scene.resolve(begun[0], "commit")
    scene.settle(waiting=5)
    copy = scene.lake.parent / "copy"
    shutil.copytree(scene.lake / "scheduled", copy)
    for message_id in ids[1::4]:
        ask(scene.url, "DELETE", f"/v1/messages/{message_id}")
    for transaction_id, resolution in zip(begun[1:], ("commit", "rollback", "unknown"), strict=False):
        scene.resolve(transaction_id, resolution)
    scene.decide(begun[3], "check")
    scene.produce({"body": "a", "delay_ms": 0}, {"body": "b", "delay_ms": HOUR_MS})
    scene.settle(waiting=5 - len(ids[1::4]) + 1)
    before = scene.scheduled(), [scene.history(each) for each in begun]
    scene.stop()
    shutil.rmtree(scene.lake / "scheduled")
    copy.rename(scene.lake / "scheduled")
    shutil.rmtree(scene.lake / "transactions")
    scene.start()
    scene.compact()
    scene.produce({"body": "plain"})
    scene.compact()
    assert (scene.scheduled(), [scene.history(each) for each in begun]) == before
    for table in ("scheduled", "transactions"):
        rows = rows_of(scene.lake, table, ["broker", "position"])
        assert len(rows) == len(set(rows))
