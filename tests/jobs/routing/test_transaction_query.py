"""The transaction query, alone: the gateway has no lead, so it anticipates nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession

from lakemq.model.names import CHECK_MAX_TOPIC
from lakemq.testing import start_gateway
from tests.gateway.http_client import connect
from tests.gateway.routing.asking import begin, checks, halves_left, resolve
from tests.jobs.routing.conftest import bodies, running, wait_until
from tests.standstill import StoodStill, first_of

SETTINGS: dict[str, Any] = {
    "transactions__timeout_ms": 1_000,
    "transactions__check_interval_ms": 1_000,
    "transactions__check_max": 2,
}
PATIENT = SETTINGS | {"transactions__check_interval_ms": 3_600_000}
UNCHECKED = SETTINGS | {"transactions__timeout_ms": 3_600_000}
"""However slow a test is, nobody gives a half up meanwhile."""
TRIES_MAX = 8


@pytest.fixture(scope="module")
def both(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[httpx.Client]]:
    """Two brokers of one query: one that gives up soon, and one that doesn't."""
    folder = tmp_path_factory.mktemp("transactions")
    alone = {"routing__lead_ms": 0, "routing__grace_ms": -1}
    with (
        start_gateway(folder / "a", broker__name="broker-a", **alone, **SETTINGS) as hasty,
        start_gateway(folder / "b", broker__name="broker-b", **alone, **PATIENT) as patient,
        connect(hasty) as http_hasty,
        connect(patient) as http_patient,
        running(spark, f"{hasty.url},{patient.url}", folder / "lake", "transaction"),
    ):
        yield [http_hasty, http_patient]


@pytest.fixture
def hasty(both: list[httpx.Client]) -> httpx.Client:
    return both[0]


@pytest.fixture
def http(both: list[httpx.Client]) -> httpx.Client:
    return both[1]


def open_transactions(http: httpx.Client) -> int:
    return http.get("/v1/routing").json()["transactions"]["open"]


def test_halves_come_when_they_are_committed_and_never_when_rolled_back(http: httpx.Client, topic: str) -> None:
    ids = begin(http, topic, *(str(number) for number in range(30)))
    resolutions = [
        {"transaction_id": transaction_id, "resolution": ("commit", "rollback")[number % 2]}
        for number, transaction_id in enumerate(ids)
    ]
    answer = http.post("/v1/transactions", json={"producer_group": "pg", "resolutions": resolutions}).json()
    assert [each["status"] for each in answer["results"]] == ["ok"] * 30
    wait_until(lambda: open_transactions(http) == 0)
    assert bodies(http, topic) == sorted(str(number) for number in range(0, 30, 2))


def begun_unanswered(http: httpx.Client, topic: str) -> tuple[str, str]:
    """A transaction whose producer said that it doesn't know yet, and its body. A machine that stands still has another
    one begun, as the first was given up by then."""

    def begun(number: int) -> tuple[str, str]:
        body = f"{topic} {number}"
        (transaction_id,) = begin(http, topic, body, group=topic)
        said = resolve(http, transaction_id, "unknown", group=topic)
        if said.status_code != 200:
            raise StoodStill(said.text)
        return transaction_id, body

    return first_of(range(TRIES_MAX), begun)


def test_an_unanswered_half_is_checked_and_then_given_up(hasty: httpx.Client, topic: str) -> None:
    given_up, body = begun_unanswered(hasty, topic)
    wait_until(lambda: body in bodies(hasty, CHECK_MAX_TOPIC))
    assert halves_left(hasty, given_up) == SETTINGS["transactions__check_max"]
    assert bodies(hasty, topic) == []


def test_an_answer_to_a_check_is_what_counts(http: httpx.Client, topic: str) -> None:
    (transaction_id,) = begin(http, topic, "late", group=topic)
    asked = checks(http, group=topic, wait_ms=60_000)
    assert [each["transaction_id"] for each in asked] == [transaction_id]
    assert resolve(http, transaction_id, "commit", group=topic).status_code == 200
    wait_until(lambda: bodies(http, topic) == ["late"])
    wait_until(lambda: open_transactions(http) == 0)


def test_what_happened_while_no_query_ran_is_decided_at_the_start(
    spark: SparkSession, tmp_path: Path, topic: str
) -> None:
    with (
        start_gateway(tmp_path / "data", routing__lead_ms=0, routing__grace_ms=-1, **UNCHECKED) as gateway,
        connect(gateway) as http,
    ):
        ids = begin(http, topic, "c", "r", "o")
        resolve(http, ids[0], "commit")
        with running(spark, gateway.url, tmp_path / "lake", "transaction"):
            wait_until(lambda: bodies(http, topic) == ["c"])
        resolve(http, ids[1], "rollback")
        resolve(http, ids[2], "commit")
        with running(spark, gateway.url, tmp_path / "lake", "transaction"):
            wait_until(lambda: open_transactions(http) == 0)
        assert bodies(http, topic) == ["c", "o"]
