"""SQL92 where a consumer says what it wants: pull, receive, subscribe."""

from __future__ import annotations

import threading

import httpx
import pytest

from lakemq.testing import GatewayProcess
from tests.gateway.groups.asking import heartbeat, view
from tests.gateway.http_client import NDJSON, connect, is_problem, produce, pull, put_topic

ORDERS = [{"body": str(number), "tag": "AB"[number % 2], "properties": {"amount": str(number)}} for number in range(10)]


def test_a_pull_has_what_its_condition_selects(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    produce(http, topic, *ORDERS, "without properties")
    answer = pull(http, topic, sql="amount BETWEEN 3 AND 5")
    assert [message["body"] for message in answer["messages"]] == ["3", "4", "5"]
    assert answer["next_offset"] == 11
    answer = pull(http, topic, sql="amount > 2", tags="A", max=2)
    assert ([message["body"] for message in answer["messages"]], answer["next_offset"]) == (["4", "6"], 7)
    assert pull(http, topic, sql="amount > 100")["status"] == "no_matched_message"
    assert len(pull(http, topic, sql="")["messages"]) == 11
    path = f"/v1/topics/{topic}/queues/0/messages?offset=0&sql=amount%20IS%20NULL"
    assert http.get(path, headers={"Accept": NDJSON}).text.count("\n") == 1


def test_a_long_poll_waits_for_what_its_condition_selects(
    gateway: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    put_topic(http, topic)
    answers: list[list[str]] = []

    def wait() -> None:
        with connect(gateway) as other:
            found = pull(other, topic, sql="amount > 5", wait_ms=50_000)["messages"]
            answers.append([message["body"] for message in found])

    thread = threading.Thread(target=wait)
    thread.start()
    for order in ORDERS[:8]:
        produce(http, topic, order)
    thread.join()
    assert answers[0][0] == "6"


def test_a_receive_has_what_its_condition_selects(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    produce(http, topic, *ORDERS)
    body = {"topic": topic, "sql": "amount > 7", "tags": "*", "wait_ms": 0}
    response = http.post(f"/v1/groups/g-{topic}/receive", json=body)
    assert [message["body"] for message in response.json()["messages"]] == ["8", "9"]
    response = http.post(f"/v1/groups/g-{topic}/receive", json={**body, "sql": "amount >"})
    assert is_problem(response, 400, "invalid_filter")


@pytest.mark.parametrize(("sql", "place"), [("amount >", 8), ("a = 1 AND f(b)", 11), ("a == = 1", 6)])
def test_a_malformed_condition_is_a_400_with_its_place(http: httpx.Client, topic: str, sql: str, place: int) -> None:
    put_topic(http, topic)
    response = http.get(f"/v1/topics/{topic}/queues/0/messages", params={"offset": 0, "sql": sql})
    assert is_problem(response, 400, "invalid_filter")
    assert response.json()["detail"].endswith(f"at character {place}")
    body = {"subscriptions": [{"topic": topic, "type": "sql92", "expression": sql}]}
    response = http.post(f"/v1/groups/g-{topic}/members/c/heartbeat", json=body)
    assert is_problem(response, 400, "invalid_filter")
    assert response.json()["detail"].endswith(f"at character {place}")
    assert http.get(f"/v1/groups/g-{topic}").status_code == 404


def test_a_member_subscribes_with_a_condition(http: httpx.Client, topic: str) -> None:
    wanted = {"topic": topic, "type": "sql92", "expression": "amount > 5"}
    heartbeat(http, f"g-{topic}", "c", wanted)
    assert view(http, f"g-{topic}")["subscriptions"] == [wanted]
    assert heartbeat(http, f"g-{topic}", "d", topic)["subscriptions_differ"]
