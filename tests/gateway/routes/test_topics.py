from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.contract.kept import kept_in
from lakemq.testing import start_gateway
from tests.gateway.http_client import connect, is_problem, produce, pull, pull_all, put_topic, tear_tail


def test_a_new_topic_is_201_and_the_same_again_is_200(http: httpx.Client, topic: str) -> None:
    for status in (201, 200):
        response = http.put(f"/v1/topics/{topic}", json={"queues": 3, "permission": "rw"})
        assert response.status_code == status
        assert response.json() == http.get(f"/v1/topics/{topic}").json()
    described = response.json()
    assert (described["topic"], described["permission"]) == (topic, "rw")
    offsets = {"min_offset": 0, "max_offset": 0, "log_min_offset": 0, "messages": 0}
    assert described["queues"] == [{"queue_id": number, **offsets} for number in range(3)]


def test_since_when_its_first_queues_have_messages_is_told_on_request(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic, 3)
    stored = [produce(http, topic, {"body": "x", "queue_id": 0})[0]["store_time_ms"] for _ in range(3)]
    first, second, third = http.get(f"/v1/topics/{topic}", params={"times": 2}).json()["queues"]
    assert (first["oldest_ms"], first["newest_ms"]) == (stored[0], stored[-1])
    assert (second["oldest_ms"], second["newest_ms"]) == (None, None)
    assert "oldest_ms" not in third
    for times, told in ((0, 0), (64, 3)):
        queues = http.get(f"/v1/topics/{topic}", params={"times": times}).json()["queues"]
        assert sum("oldest_ms" in each for each in queues) == told
    for wrong in ("-1", "65", "all"):
        is_problem(http.get(f"/v1/topics/{topic}", params={"times": wrong}), 400, "invalid_request")


def test_the_times_of_later_queues_are_told_from_any_queue_on(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic, 3)
    stored = [produce(http, topic, {"body": "x", "queue_id": number})[0]["store_time_ms"] for number in range(3)]
    for begin, times, told in ((1, 1, [1]), (1, 64, [1, 2]), (2, 64, [2]), (3, 64, []), (2**53, 64, []), (1, 0, [])):
        queues = http.get(f"/v1/topics/{topic}", params={"times": times, "times_from": begin}).json()["queues"]
        assert {each["queue_id"]: each["oldest_ms"] for each in queues if "oldest_ms" in each} == {
            number: stored[number] for number in told
        }
    for wrong in ("-1", str(2**53 + 1), "all"):
        is_problem(http.get(f"/v1/topics/{topic}", params={"times_from": wrong}), 400, "invalid_request")


@pytest.mark.parametrize("content", [b"", b"{}", b"null"])
def test_what_is_left_out_has_its_default(http: httpx.Client, topic: str, content: bytes) -> None:
    response = http.put(f"/v1/topics/{topic}", content=content, headers={"Content-Type": "application/json"})
    assert response.status_code == 201
    assert len(response.json()["queues"]) == 4


def test_what_is_left_out_of_a_change_stays(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic, 2, "r")
    assert len(http.put(f"/v1/topics/{topic}", json={"permission": "rw"}).json()["queues"]) == 2
    assert http.put(f"/v1/topics/{topic}", json={"queues": 3}).json()["permission"] == "rw"


def test_with_auto_a_topic_is_made_as_its_first_message_makes_it(http: httpx.Client, topic: str) -> None:
    made = http.put(f"/v1/topics/{topic}?auto=true")
    assert (made.status_code, len(made.json()["queues"]), made.json()["permission"]) == (201, 4, "rw")
    put_topic(http, topic, 6, "r")
    again = http.put(f"/v1/topics/{topic}?auto=true")
    assert again.status_code == 200
    assert (len(again.json()["queues"]), again.json()["permission"]) == (6, "r"), "it stays as it is"
    assert is_problem(http.put(f"/v1/topics/{topic}?auto=true", json={"queues": 8}), 400, "invalid_request")
    assert is_problem(http.put("/v1/topics/%25RETRY%25g?auto=true"), 403, "read_only_topic")


def test_queues_only_grow(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic, 3)
    assert is_problem(http.put(f"/v1/topics/{topic}", json={"queues": 2}), 400, "invalid_request")
    placed = produce(http, topic, {"body": "x", "queue_id": 2})
    put_topic(http, topic, 5)
    produce(http, topic, {"body": "y", "queue_id": 4})
    assert [message["body"] for message in pull_all(http, topic)] == ["x", "y"]
    assert pull(http, topic, 2)["messages"][0]["message_id"] == placed[0]["message_id"]


@pytest.mark.parametrize(
    "body",
    [
        {"queues": 0},
        {"queues": -1},
        {"queues": 1025},
        {"queues": 10**30},
        {"queues": "4"},
        {"queues": 1.5},
        {"queues": True},
        {"permission": "x"},
        {"permission": "wr"},
        {"permission": "x" * 10_000},
        {"colour": "red"},
        [],
        "text",
        4,
    ],
)
def test_a_topic_that_can_not_be_is_refused(http: httpx.Client, topic: str, body: Any) -> None:
    assert is_problem(http.put(f"/v1/topics/{topic}", json=body), 400, "invalid_request")
    assert is_problem(http.get(f"/v1/topics/{topic}"), 404, "topic_not_found")


@pytest.mark.parametrize(
    "content", [b"{", b"\xff", b"[" * 100_000, b'{"queues": ' + b"9" * 10_000 + b"}", b'{"permission": "\\ud800"}']
)
def test_a_body_that_is_no_json_is_refused(http: httpx.Client, topic: str, content: bytes) -> None:
    response = http.put(f"/v1/topics/{topic}", content=content, headers={"Content-Type": "application/json"})
    assert is_problem(response, 400, "invalid_request")


def test_names_of_the_system_can_be_neither_made_nor_deleted(http: httpx.Client) -> None:
    for name in ("%25RETRY%25g", "%25DLQ%25g", "RMQ_SYS_TOPICS", "RMQ_SYS_X"):
        assert is_problem(http.put(f"/v1/topics/{name}", json={}), 403, "read_only_topic")
        assert is_problem(http.delete(f"/v1/topics/{name}"), 403, "read_only_topic")


def test_a_name_that_is_none_is_refused(http: httpx.Client) -> None:
    for name in ("a.b", "%ff", "a" * 128, "a%00", "ü"):
        for method in ("PUT", "GET", "DELETE"):
            assert is_problem(http.request(method, f"/v1/topics/{name}"), 400, "invalid_topic")


def test_topics_are_listed_with_the_systems_only_on_request(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic, 2)
    listed = {entry["topic"]: entry for entry in http.get("/v1/topics").json()["topics"]}
    assert listed[topic] == http.get(f"/v1/topics/{topic}").json()
    assert "RMQ_SYS_TOPICS" not in listed
    with_system = [entry["topic"] for entry in http.get("/v1/topics?system=true").json()["topics"]]
    assert "RMQ_SYS_TOPICS" in with_system
    assert with_system == sorted(with_system)


def test_a_deleted_topic_is_gone_with_its_messages(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    (placed,) = produce(http, topic, "hello")
    assert http.delete(f"/v1/topics/{topic}").status_code == 200
    assert is_problem(http.get(f"/v1/topics/{topic}"), 404, "topic_not_found")
    assert is_problem(http.delete(f"/v1/topics/{topic}"), 404, "topic_not_found")
    assert is_problem(http.get(f"/v1/topics/{topic}/queues/0/messages?offset=0"), 404, "topic_not_found")
    assert is_problem(http.get(f"/v1/messages/{placed['message_id']}"), 404, "message_not_found")
    assert topic not in [entry["topic"] for entry in http.get("/v1/topics").json()["topics"]]


def test_a_topic_made_again_shows_nothing_of_the_one_before(http: httpx.Client, topic: str) -> None:
    """No (topic, queue, offset) ever means two messages, so the offsets go on."""
    put_topic(http, topic)
    (before,) = produce(http, topic, "before")
    http.delete(f"/v1/topics/{topic}")
    assert http.put(f"/v1/topics/{topic}", json={"queues": 1}).status_code == 201
    (after,) = produce(http, topic, "after")
    assert after["queue_offset"] > before["queue_offset"]
    assert pull(http, topic)["status"] == "offset_out_of_range"
    answer = pull(http, topic, 0, pull(http, topic)["next_offset"])
    assert [message["body"] for message in answer["messages"]] == ["after"]
    assert is_problem(http.get(f"/v1/messages/{before['message_id']}"), 404, "message_not_found")
    assert http.get(f"/v1/messages/{after['message_id']}").json()["body"] == "after"


def test_a_topic_made_again_has_the_queues_that_it_is_made_with(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic, 6)
    http.delete(f"/v1/topics/{topic}")
    response = http.put(f"/v1/topics/{topic}", json={"queues": 2})
    assert (response.status_code, len(response.json()["queues"])) == (201, 2)


@pytest.mark.parametrize("cleanly", [True, False])
def test_topics_outlive_the_process(tmp_path: Path, cleanly: bool) -> None:
    gateway = start_gateway(tmp_path)
    with connect(gateway) as http:
        put_topic(http, "kept", 2, "r")
        put_topic(http, "grown", 1)
        put_topic(http, "grown", 3)
        put_topic(http, "deleted")
        produce(http, "deleted", "gone")
        http.delete("/v1/topics/deleted")
        put_topic(http, "again")
        produce(http, "again", "gone")
        http.delete("/v1/topics/again")
        put_topic(http, "again")
        produce(http, "again", "there")
        before = http.get("/v1/topics?system=true").json()
    if cleanly:
        assert gateway.stop() == 0
    else:
        gateway.kill()
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        assert http.get("/v1/topics?system=true").json() == before
        assert [message["body"] for message in pull(http, "again", 0, 1)["messages"]] == ["there"]


def test_no_more_topics_than_the_setting_says(tmp_path: Path) -> None:
    with start_gateway(tmp_path, topics__topics_max=3) as gateway, connect(gateway) as http:
        put_topic(http, "a")
        put_topic(http, "b")
        assert is_problem(http.put("/v1/topics/c", json={}), 400, "invalid_request")
        assert is_problem(http.post("/v1/topics/c/messages", content=b"x"), 400, "invalid_request")
        assert http.put("/v1/topics/a", json={"queues": 5}).status_code == 200


def test_no_more_queues_of_all_topics_than_the_setting_says(tmp_path: Path) -> None:
    with start_gateway(tmp_path, topics__all_queues_max=10) as gateway, connect(gateway) as http:
        there = sum(len(each["queues"]) for each in http.get("/v1/topics?system=true").json()["topics"])
        put_topic(http, "a", 10 - there)
        assert is_problem(http.put("/v1/topics/b", json={"queues": 1}), 400, "invalid_request")
        assert is_problem(http.put("/v1/topics/a", json={"queues": 11 - there}), 400, "invalid_request")
        http.delete("/v1/topics/a")
        put_topic(http, "b", 10 - there)


def test_offsets_that_a_crash_skipped_are_counted_as_no_messages(tmp_path: Path) -> None:
    """`lakemq topic list` and the console said that a topic of one message had a million."""
    gateway = start_gateway(tmp_path, storage__flush_interval_ms=60_000)
    with connect(gateway) as http:
        put_topic(http, "t", 1)
        produce(http, "t", "kept", ack="sync")
        produce(http, "t", "torn")
    gateway.kill()
    tear_tail(tmp_path)
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        produce(http, "t", "new")
        (queue,) = http.get("/v1/topics/t").json()["queues"]
    assert queue["max_offset"] - queue["min_offset"] > 2
    assert (queue["messages"], kept_in(queue)) == (2, 2)
    del queue["messages"]
    assert kept_in(queue) == queue["max_offset"], "an older broker doesn't say it"
