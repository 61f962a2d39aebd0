"""What waits, listed page by page over HTTP. That it is all of it, `test_routing_machine` shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.model.names import HALF_TOPIC, NACK_TOPIC, OP_TOPIC, RECEIVE_TOPIC, SCHEDULE_TOPIC
from lakemq.testing import start_gateway
from tests.gateway.http_client import connect, is_problem, produce, read_arrow
from tests.gateway.receive.asking import receive
from tests.gateway.routing.asking import begin, log_of, nack, position, resolve

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def http(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A gateway that leaves everything to the query."""
    data: Path = tmp_path_factory.mktemp("pending")
    with start_gateway(data, routing__lead_ms=0, routing__grace_ms=-1) as gateway, connect(gateway) as http:
        yield http


def listed(http: httpx.Client, kind: str, first: int = -1, **query: Any) -> list[dict[str, Any]]:
    """The rows of all pages."""
    rows: list[dict[str, Any]] = []
    after: str | None = str(first)
    while after is not None:
        response = http.get("/v1/routing/pending", params=query | {"kind": kind, "after": after})
        assert response.status_code == 200, response.text
        assert response.headers["lakemq-log-id"] == log_of(http)["log_id"]
        assert response.headers["lakemq-epoch"] == str(log_of(http)["epoch"])
        page = read_arrow(response.content).to_pylist()
        assert len(page) <= query.get("max", 10_000)
        rows += page
        after = response.headers.get("lakemq-next-cause")
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


@pytest.mark.parametrize("count_max", [1, 4, 5, 10_000])
def test_delays_are_listed_by_when_they_are_due_in_pages(http: httpx.Client, topic: str, count_max: int) -> None:
    sent = produce(http, topic, *[{"body": "x", "delay_ms": hours * HOUR_MS} for hours in (1, 9, 2, 8, 3, 7, 4)])
    first = position(sent[0]["message_id"])
    known = {row["position"]: row["deliver_at_ms"] for row in listed(http, "delay")}
    dues = [known[first + number] for number in range(7)]
    assert sorted(dues) == [dues[number] for number in (0, 2, 4, 6, 5, 3, 1)]
    found = listed(http, "delay", due_from_ms=dues[2], due_to_ms=dues[5], first=first - 1, max=count_max)
    assert found == [
        {"position": first + number, "topic": SCHEDULE_TOPIC, "deliver_at_ms": dues[number]} for number in (2, 4, 6)
    ]


def test_each_kind_says_what_its_decision_depends_on(http: httpx.Client, topic: str) -> None:
    opened, committed = begin(http, topic, "open", "committed")
    resolve(http, committed, "commit")
    halves = {row["position"]: row for row in listed(http, "transaction", max=1)}
    half, operation = halves[position(opened)], halves[position(committed)]
    assert half["topic"] == HALF_TOPIC
    assert half["check_times"] == 0
    assert 0 < half["deliver_at_ms"] - half["store_time_ms"] <= 6_000
    assert (operation["topic"], operation["tag"]) == (OP_TOPIC, "commit")
    assert position(operation["origin_message_id"]) == position(committed)
    (sent,) = produce(http, topic, "x")
    (held,) = receive(http, topic, topic, max_reconsume_times=3)
    (receipt,) = [row for row in listed(http, "receipt") if row["position"] == position(held["receipt"])]
    assert (receipt["topic"], receipt["reconsume_times"]) == (RECEIVE_TOPIC, 0)
    assert dict(receipt["properties"]) == {"max_reconsume_times": "3"}
    nack(http, f"{topic}-other", {"message_id": sent["message_id"], "delay_level": 7, "max_reconsume_times": 5})
    row = listed(http, "nack", max=1)[-1]
    assert (row["topic"], row["reconsume_times"]) == (NACK_TOPIC, 0)
    assert dict(row["properties"]) == {"delay_level": "7", "max_reconsume_times": "5"}
    # What waits for nothing comes with the first listing alone: later the log tells of it.
    assert listed(http, "nack", due_from_ms=1) == []
    assert position(committed) not in {each["position"] for each in listed(http, "transaction", due_from_ms=1)}


@pytest.mark.parametrize(
    "query",
    [{}, {"kind": "x"}, {"kind": "nack", "max": 0}, {"kind": "nack", "max": 10_001}, {"kind": "nack", "after": -2}],
)
def test_a_listing_that_can_not_be_is_refused(http: httpx.Client, query: dict[str, Any]) -> None:
    assert is_problem(http.get("/v1/routing/pending", params=query), 400, "invalid_request")
