"""Nacks and their retries, in one wheel with delays: the gateway has no lead."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from pyspark.sql import SparkSession

from lakemq.model.failure import FAILURE_CLASS, FAILURE_TEXT
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.http_client import connect, produce, pull_all
from tests.gateway.routing.asking import nack
from tests.jobs.routing.conftest import bodies, running, wait_until

LEVELS = "100ms 200ms 300ms 400ms"


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    folder = tmp_path_factory.mktemp("nacks")
    with start_gateway(folder, routing__lead_ms=0, routing__grace_ms=-1, delay__levels=LEVELS) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def http(
    alone: GatewayProcess, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[httpx.Client]:
    lake = tmp_path_factory.mktemp("lake")
    with connect(alone) as http, running(spark, alone.url, lake, "retry delay"):
        yield http


def routed(http: httpx.Client) -> bool:
    waiting = http.get("/v1/routing").json()
    return waiting["retry"]["waiting"] == waiting["delay"]["waiting"] == 0


def test_a_nacked_message_comes_again_until_it_is_a_dead_letter(http: httpx.Client, topic: str) -> None:
    sent = produce(http, topic, "x")
    message_id = sent[0]["message_id"]
    for times in (1, 2):
        reason = {"class": "ValueError", "text": f"time {times}"}
        why = {"message_id": message_id, "max_reconsume_times": 2, "reason": reason}
        assert nack(http, topic, why).status_code == 200
        wait_until(lambda times=times: len(bodies(http, f"%RETRY%{topic}")) == times)
        again = pull_all(http, f"%RETRY%{topic}")[-1]
        assert (again["body"], again["reconsume_times"], again["real_topic"]) == ("x", times, topic)
        assert again["origin_message_id"] == sent[0]["message_id"]
        assert again["properties"] == {FAILURE_CLASS: "ValueError", FAILURE_TEXT: f"time {times}"}
        message_id = again["message_id"]
    nack(http, topic, {"message_id": message_id, "max_reconsume_times": 2, "reason": "the last time"})
    wait_until(lambda: bodies(http, f"%DLQ%{topic}") == ["x"])
    assert pull_all(http, f"%DLQ%{topic}")[0]["properties"] == {FAILURE_TEXT: "the last time"}
    wait_until(lambda: routed(http))


def test_a_message_that_is_nacked_twice_comes_once(http: httpx.Client, topic: str) -> None:
    ids = [each["message_id"] for each in produce(http, topic, *map(str, range(20)))]
    for _ in range(2):
        nack(http, topic, *ids)
    nack(http, f"{topic}-other", *ids[:5])
    wait_until(lambda: len(bodies(http, f"%RETRY%{topic}")) == 20)
    wait_until(lambda: len(bodies(http, f"%RETRY%{topic}-other")) == 5)
    wait_until(lambda: routed(http))
    assert bodies(http, f"%RETRY%{topic}") == sorted(map(str, range(20)))


def test_a_group_chooses_the_dead_letters_or_a_level(http: httpx.Client, topic: str) -> None:
    levels = {"dead": -1, "dead at least": -(2**31), "level 4": 4, "the highest": 2**31}
    sent = produce(http, topic, *levels)
    for message, level in zip(sent, levels.values(), strict=True):
        answer = nack(http, topic, {"message_id": message["message_id"], "delay_level": level})
        assert answer.status_code == 200
    wait_until(lambda: bodies(http, f"%DLQ%{topic}") == ["dead", "dead at least"])
    wait_until(lambda: bodies(http, f"%RETRY%{topic}") == ["level 4", "the highest"])
    stored = {each["message_id"]: each["store_time_ms"] for each in sent}
    for again in pull_all(http, f"%RETRY%{topic}"):
        assert again["store_time_ms"] - stored[again["origin_message_id"]] >= 400


@pytest.mark.long
def test_with_a_lead_the_outcomes_are_the_same(spark: SparkSession, tmp_path: Path, topic: str) -> None:
    with start_gateway(tmp_path / "data", delay__levels=LEVELS) as gateway, connect(gateway) as http:
        with running(spark, gateway.url, tmp_path / "lake", "retry delay"):
            kept, dead = produce(http, topic, "kept", "dead")
            nack(http, topic, kept["message_id"], {"message_id": dead["message_id"], "delay_level": -1})
            wait_until(
                lambda: bodies(http, f"%RETRY%{topic}") == ["kept"] and bodies(http, f"%DLQ%{topic}") == ["dead"]
            )
            wait_until(lambda: routed(http))
        with running(spark, gateway.url, tmp_path / "lake", "retry delay"):
            assert len(bodies(http, f"%RETRY%{topic}")) == len(bodies(http, f"%DLQ%{topic}")) == 1
