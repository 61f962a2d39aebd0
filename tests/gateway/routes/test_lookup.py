from __future__ import annotations

import httpx
import pytest

from tests.gateway.http_client import is_problem, message_id_at, produce, pull, put_topic


def test_a_message_is_found_by_its_id(http: httpx.Client, topic: str) -> None:
    placed = produce(http, topic, {"body": "one", "keys": ["k"]}, {"body": "two", "tag": "T"}, "three")
    for place, body in zip(placed, ("one", "two", "three"), strict=True):
        message = http.get(f"/v1/messages/{place['message_id']}").json()
        assert message["body"] == body
        pulled = pull(http, topic, place["queue_id"], place["queue_offset"], max=1)["messages"]
        assert pulled == [message]


def test_an_id_is_safe_in_a_url(http: httpx.Client, topic: str) -> None:
    (placed,) = produce(http, topic, "hello")
    assert set(placed["message_id"]) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")


@pytest.mark.parametrize(
    "message_id",
    [
        "{0}.999999999999",
        "{0}.9223372036854775807",
        "{0}.9223372036854775808",
        "{0}.99999999999999999999999999",
        "{0}.-1",
        "{0}.00",
        "{0}.",
        "broker-a.0123456789ab-1.0",
        "broker-a.0",
        "broker-b.0123456789ab-1.0",
        "nonsense",
        "%00",
        "%ff",
        "{0}.%D9%A3",
        "x" * 5000,
    ],
)
def test_an_id_of_no_message_is_a_404(http: httpx.Client, message_id: str) -> None:
    life = message_id_at(http, 0).rpartition(".")[0]
    response = http.get(f"/v1/messages/{message_id.format(life)}")
    assert response.status_code == 404
    assert response.json()["code"] in ("message_not_found", "not_found")


def test_the_offset_of_a_time_is_that_of_the_first_message_from_then_on(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    placed = [produce(http, topic, str(number))[0] for number in range(10)]
    path = f"/v1/topics/{topic}/queues/0/offset"
    times = [place["store_time_ms"] for place in placed]
    for time in (0, times[0], times[4], times[4] + 1, times[9]):
        expected = next((number for number, stored in enumerate(times) if stored >= time), 10)
        assert http.get(path, params={"timestamp_ms": time}).json() == {"offset": expected}
    for time in (times[9] + 1, 2**53):
        assert http.get(path, params={"timestamp_ms": time}).json() == {"offset": 10}


def test_the_offset_of_a_time_counts_only_the_queue(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic, 2)
    (first,) = produce(http, topic, {"body": "a", "queue_id": 0})
    produce(http, topic, {"body": "b", "queue_id": 1})
    path = f"/v1/topics/{topic}/queues/1/offset"
    assert http.get(path, params={"timestamp_ms": first["store_time_ms"]}).json() == {"offset": 0}
    produce(http, f"{topic}-other", "later")
    assert http.get(path, params={"timestamp_ms": 2**53}).json() == {"offset": 1}


@pytest.mark.parametrize(
    "query",
    ["", "timestamp_ms=", "timestamp_ms=-1", "timestamp_ms=x", "timestamp_ms=1e400", "timestamp_ms=" + "9" * 5000],
)
def test_a_time_that_is_none_is_refused(http: httpx.Client, topic: str, query: str) -> None:
    put_topic(http, topic)
    assert is_problem(http.get(f"/v1/topics/{topic}/queues/0/offset?{query}"), 400, "invalid_request")


def test_the_offset_of_a_topic_or_queue_that_is_not_there_is_a_404(http: httpx.Client, topic: str) -> None:
    assert is_problem(http.get(f"/v1/topics/{topic}/queues/0/offset?timestamp_ms=0"), 404, "topic_not_found")
    put_topic(http, topic)
    for queue in ("1", "-1", "9" * 30):
        response = http.get(f"/v1/topics/{topic}/queues/{queue}/offset?timestamp_ms=0")
        assert is_problem(response, 404, "queue_not_found")
    assert is_problem(http.get(f"/v1/topics/{topic}/queues/x/offset?timestamp_ms=0"), 400, "invalid_request")


@pytest.mark.parametrize(
    "query",
    [
        "",
        "topic={}",
        "key=k",
        "topic={}&key=",
        "topic={}&key=k&max=0",
        "topic={}&key=k&max=1001",
        "topic={}&key=k&begin_ms=-1",
    ],
)
def test_a_search_by_key_that_makes_no_sense_is_refused(http: httpx.Client, topic: str, query: str) -> None:
    put_topic(http, topic)
    assert is_problem(http.get(f"/v1/messages?{query.format(topic)}"), 400, "invalid_request")


def test_a_search_by_key_in_a_topic_that_is_none_says_so(http: httpx.Client) -> None:
    assert is_problem(http.get("/v1/messages?topic=no-such-topic&key=k"), 404, "topic_not_found")
    assert is_problem(http.get("/v1/messages?topic=%20&key=k"), 400, "invalid_topic")


def test_messages_in_the_log_are_found_by_key_and_not_those_of_a_topic_that_was_deleted(
    http: httpx.Client, topic: str
) -> None:
    produce(http, topic, {"body": "old", "keys": ["k"]})
    http.delete(f"/v1/topics/{topic}")
    produce(
        http, topic, {"body": "a", "keys": ["j", "k", "k"]}, {"body": "b", "keys": ["j"]}, {"body": "c", "keys": ["k"]}
    )
    produce(http, f"{topic}-other", {"body": "x", "keys": ["k"]})
    found = http.get("/v1/messages", params={"topic": topic, "key": "k"}).json()
    assert [message["body"] for message in found["messages"]] == ["c", "a"]
    assert found["complete"]
