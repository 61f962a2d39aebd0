"""The receive query, alone: the gateway has no lead, so nothing runs out but by the query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from pyspark.sql import SparkSession

from lakemq.testing import start_gateway
from tests.gateway.http_client import connect, produce, pull_all
from tests.gateway.receive.asking import ack, change, out, receive
from tests.jobs.routing.conftest import bodies, running, wait_until

HOUR_MS = 3_600_000
"""However slow a test is, it comes before that is over."""


@pytest.fixture(scope="module")
def http(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    folder = tmp_path_factory.mktemp("receives")
    with (
        start_gateway(folder / "data", routing__lead_ms=0, routing__grace_ms=-1) as gateway,
        connect(gateway) as http,
        running(spark, gateway.url, folder / "lake", "retry"),
    ):
        yield http


def test_what_is_acknowledged_in_time_is_done_and_the_rest_comes_again(http: httpx.Client, topic: str) -> None:
    produce(http, topic, *map(str, range(40)))
    done = receive(http, topic, topic, max=20, invisible_ms=HOUR_MS)
    rest = receive(http, topic, topic, max=40, invisible_ms=500)
    assert (len(done), len(rest)) == (20, 20)
    assert ack(http, topic, *done) == ["ok"] * 20
    wait_until(lambda: out(http) == 0)
    assert bodies(http, f"%RETRY%{topic}") == sorted(message["body"] for message in rest)
    again = receive(http, topic, topic, max=40, invisible_ms=HOUR_MS)
    assert {message["reconsume_times"] for message in again} == {1}
    assert ack(http, topic, *again) == ["ok"] * 20
    assert ack(http, topic, *done, *rest) == ["ok"] * 20 + ["receipt_expired"] * 20


def test_after_its_attempts_a_message_is_a_dead_letter(http: httpx.Client, topic: str) -> None:
    (sent,) = produce(http, topic, "x")
    for times in range(3):
        (held,) = receive(http, topic, topic, wait_ms=60_000, invisible_ms=100, max_reconsume_times=2)
        assert held["reconsume_times"] == times
    wait_until(lambda: bodies(http, f"%DLQ%{topic}") == ["x"])
    (dead,) = pull_all(http, f"%DLQ%{topic}")
    assert (dead["reconsume_times"], dead["origin_message_id"]) == (2, sent["message_id"])


def test_who_needs_longer_keeps_the_message(http: httpx.Client, topic: str) -> None:
    produce(http, topic, "kept", "given back")
    kept, back = receive(http, topic, topic, invisible_ms=HOUR_MS)
    longer = change(http, topic, kept["receipt"], 2 * HOUR_MS).json()["receipt"]
    change(http, topic, back["receipt"], 0)
    wait_until(lambda: out(http) == 1)
    assert bodies(http, f"%RETRY%{topic}") == [back["body"]]
    assert ack(http, topic, longer, kept, back) == ["ok", "receipt_expired", "receipt_expired"]


def test_what_happened_while_no_query_ran_is_decided_at_the_start(
    spark: SparkSession, tmp_path: Path, topic: str
) -> None:
    with (
        start_gateway(tmp_path / "data", routing__lead_ms=0, routing__grace_ms=-1) as gateway,
        connect(gateway) as http,
    ):
        produce(http, topic, "a", "b", "c")
        held = receive(http, "g", topic, invisible_ms=1)
        ack(http, "g", held[0])
        gateway.kill()
    with (
        start_gateway(tmp_path / "data", routing__lead_ms=0, routing__grace_ms=-1) as gateway,
        connect(gateway) as http,
    ):
        assert out(http) == 2
        with running(spark, gateway.url, tmp_path / "lake", "retry"):
            wait_until(lambda: out(http) == 0)
        assert bodies(http, "%RETRY%g") == sorted(message["body"] for message in held[1:])
        assert ack(http, "g", *held) == ["ok", "receipt_expired", "receipt_expired"]
