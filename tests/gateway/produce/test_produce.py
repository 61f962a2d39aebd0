from __future__ import annotations

from collections import Counter
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

from lakemq.testing import start_gateway
from tests.gateway.http_client import ARROW, connect, is_problem, produce, pull, pull_all, put_topic, write_arrow


@pytest.mark.parametrize("ack", ["async", "sync"])
def test_an_acknowledged_message_can_be_pulled_at_once(http: httpx.Client, topic: str, ack: str) -> None:
    (placed,) = produce(http, topic, "hello", ack=ack)
    (message,) = pull_all(http, topic)
    assert message["message_id"] == placed["message_id"]


def test_sync_means_on_disk(http: httpx.Client, topic: str) -> None:
    (placed,) = produce(http, topic, "hello", ack="sync")
    assert http.get("/v1/broker").json()["flushed_position"] > placed["position"]


def test_a_broker_set_to_sync_flush_treats_async_as_sync(tmp_path: Path) -> None:
    options = {"storage__flush": "sync", "storage__flush_interval_ms": 60_000}
    with start_gateway(tmp_path, **options) as gateway, connect(gateway) as http:
        (placed,) = produce(http, "t", "hello")
        assert http.get("/v1/broker").json()["flushed_position"] > placed["position"]


def test_one_way_is_answered_202_without_a_result_and_stored(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    response = http.post(f"/v1/topics/{topic}/messages?ack=none", content=b"hello")
    assert (response.status_code, response.content) == (202, b"")
    columns = {"body": pa.array([b"arrow"], pa.binary())}
    response = http.post(
        f"/v1/topics/{topic}/messages?ack=none", content=write_arrow(columns), headers={"Content-Type": ARROW}
    )
    assert (response.status_code, response.content) == (202, b"")
    found = pull(http, topic, 0, 0, wait_ms=50_000)["messages"]
    found += pull(http, topic, 0, 1, wait_ms=50_000)["messages"] if len(found) < 2 else []
    assert [message["body"] for message in found] == ["hello", "arrow"]


@pytest.mark.parametrize("query", ["ack=bogus", "ack=", "ack=sync&ack=sync", "acknowledge=sync", "ack=%ff", "a=%zz"])
def test_a_query_that_the_contract_does_not_know_is_refused(http: httpx.Client, topic: str, query: str) -> None:
    assert is_problem(http.post(f"/v1/topics/{topic}/messages?{query}", content=b"x"), 400, "invalid_request")
    assert is_problem(http.get(f"/v1/topics/{topic}"), 404, "topic_not_found")


def test_a_topic_is_made_on_the_first_produce_with_the_default_queues(http: httpx.Client, topic: str) -> None:
    produce(http, topic, "hello")
    described = http.get(f"/v1/topics/{topic}").json()
    assert [queue["queue_id"] for queue in described["queues"]] == [0, 1, 2, 3]
    assert described["permission"] == "rw"


def test_without_auto_create_a_topic_must_be_made_first(tmp_path: Path) -> None:
    with start_gateway(tmp_path, topics__auto_create="false") as gateway, connect(gateway) as http:
        assert is_problem(http.post("/v1/topics/t/messages", content=b"x"), 404, "topic_not_found")
        assert http.get("/v1/topics").json() == {"topics": []}
        put_topic(http, "t")
        assert http.post("/v1/topics/t/messages", content=b"x").status_code == 200


def test_messages_that_name_no_queue_are_spread_evenly(http: httpx.Client, topic: str) -> None:
    placed = produce(http, topic, *("x" for _ in range(40)))
    for _ in range(40):
        placed += http.post(f"/v1/topics/{topic}/messages", content=b"x").json()["messages"]
    assert Counter(place["queue_id"] for place in placed) == {0: 20, 1: 20, 2: 20, 3: 20}


def test_arrow_requests_that_name_no_queue_are_spread_too(http: httpx.Client, topic: str) -> None:
    content = write_arrow({"body": pa.array([b"x"] * 10, pa.binary())})
    for _ in range(8):
        response = http.post(f"/v1/topics/{topic}/messages", content=content, headers={"Content-Type": ARROW})
        assert response.status_code == 200
    assert Counter(message["queue_id"] for message in pull_all(http, topic)) == {0: 20, 1: 20, 2: 20, 3: 20}


def test_an_ordering_key_stays_in_one_queue_in_order(http: httpx.Client, topic: str) -> None:
    for number in range(30):
        produce(http, topic, {"body": str(number), "ordering_key": "one"}, {"body": "other"})
    ours = [message for message in pull_all(http, topic) if message.get("ordering_key") == "one"]
    assert len({message["queue_id"] for message in ours}) == 1
    assert [message["body"] for message in ours] == [str(number) for number in range(30)]


def test_a_named_queue_wins_over_an_ordering_key(http: httpx.Client, topic: str) -> None:
    placed = produce(http, topic, *({"body": "x", "ordering_key": "k", "queue_id": queue} for queue in range(4)))
    assert [place["queue_id"] for place in placed] == [0, 1, 2, 3]


def test_a_queue_that_is_not_there_refuses_the_whole_request(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic, 2)
    path = f"/v1/topics/{topic}/messages"
    messages = {"messages": [{"body": "a", "queue_id": 1}, {"body": "b", "queue_id": 2}]}
    assert is_problem(http.post(path, json=messages), 404, "queue_not_found")
    columns = {"body": pa.array([b"a", b"b"], pa.binary()), "queue_id": pa.array([1, 2], pa.int32())}
    response = http.post(path, content=write_arrow(columns), headers={"Content-Type": ARROW})
    assert is_problem(response, 404, "queue_not_found")
    assert is_problem(http.post(path, content=b"x", headers={"Lakemq-Queue-Id": "2"}), 404, "queue_not_found")
    assert pull_all(http, topic) == []


def test_one_bad_message_refuses_the_whole_request(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    messages = {"messages": [{"body": "good"}, {"body": "bad", "tag": ""}]}
    response = http.post(f"/v1/topics/{topic}/messages", json=messages)
    assert is_problem(response, 400, "invalid_request")
    assert "messages[1]" in response.json()["detail"]
    assert pull_all(http, topic) == []


@pytest.mark.parametrize(
    "name", ["%25RETRY%25g", "%25DLQ%25g", "RMQ_SYS_TOPICS", "RMQ_SYS_NEW", "%25", "SCHEDULE_TOPIC_XXXX"]
)
def test_the_systems_topics_can_not_be_written(http: httpx.Client, name: str) -> None:
    assert is_problem(http.post(f"/v1/topics/{name}/messages", content=b"x"), 403, "read_only_topic")
    assert is_problem(
        http.post(f"/v1/topics/{name}/messages", json={"messages": [{"body": "x"}]}), 403, "read_only_topic"
    )


@pytest.mark.parametrize(
    "name", ["a.b", "a b", "ü", "a%25", "a" * 128, "a%00", "a%0a", "%ff", "a:b", "a~", "%F0%9F%8E%89"]
)
def test_a_name_that_is_none_is_refused(http: httpx.Client, name: str) -> None:
    assert is_problem(http.post(f"/v1/topics/{name}/messages", content=b"x"), 400, "invalid_topic")


def test_the_longest_name_is_taken(http: httpx.Client) -> None:
    produce(http, "a" * 127, "hello")
    assert len(pull_all(http, "a" * 127)) == 1


def test_a_read_only_topic_takes_no_messages(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic, permission="r")
    assert is_problem(http.post(f"/v1/topics/{topic}/messages", content=b"x"), 403, "read_only_topic")
    put_topic(http, topic, permission="rw")
    assert http.post(f"/v1/topics/{topic}/messages", content=b"x").status_code == 200


def test_store_times_and_positions_never_go_back(http: httpx.Client, topic: str) -> None:
    placed = [place for _ in range(50) for place in produce(http, topic, "a", "b")]
    assert sorted(place["position"] for place in placed) == [place["position"] for place in placed]
    times = [place["store_time_ms"] for place in placed]
    assert times == sorted(times)
