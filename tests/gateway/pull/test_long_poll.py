from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from lakemq.testing import GatewayProcess
from tests.gateway.http_client import ARROW, NDJSON, Connection, produce, pull, put_topic, read_arrow, waiting


def hold(
    http: httpx.Client, pool: ThreadPoolExecutor, ask: Callable[[], dict[str, Any]], others: int = 0
) -> Future[dict[str, Any]]:
    """Begin a poll beside so many others of this test; returns when the gateway holds it."""
    while waiting(http) > others:  # of tests before
        pass
    future = pool.submit(ask)
    while waiting(http) <= others and not future.done():
        pass
    return future


def test_an_arrival_answers_who_waits(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic, 2)
    with ThreadPoolExecutor() as pool:
        polls = [hold(http, pool, lambda: pull(http, topic, wait_ms=60_000), others) for others in range(3)]
        other = hold(http, pool, lambda: pull(http, topic, 1, wait_ms=60_000), 3)
        produce(http, topic, {"body": "hello", "queue_id": 0})
        for poll in polls:
            answer = poll.result()
            assert (answer["status"], answer["next_offset"], answer["max_offset"]) == ("found", 1, 1)
            assert [message["body"] for message in answer["messages"]] == ["hello"]
        assert not other.done()
        produce(http, topic, {"body": "other", "queue_id": 1})
        assert other.result()["messages"][0]["body"] == "other"


def test_without_an_arrival_the_answer_comes_when_the_time_is_over(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    answer = pull(http, topic, wait_ms=300)
    assert (answer["status"], answer["messages"]) == ("no_new_message", [])


def test_only_a_matching_message_answers_a_filtered_poll(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    produce(http, topic, {"body": "before", "tag": "other"})
    with ThreadPoolExecutor() as pool:
        poll = hold(http, pool, lambda: pull(http, topic, tags="mine", wait_ms=60_000))
        produce(http, topic, {"body": "x", "tag": "other"}, "y")
        produce(http, topic, {"body": "z"})
        while waiting(http) == 0:
            assert not poll.done()
        produce(http, topic, {"body": "no", "tag": "other"}, {"body": "yes", "tag": "mine"})
        answer = poll.result()
    assert [message["body"] for message in answer["messages"]] == ["yes"]
    assert answer["next_offset"] == 6


def test_a_filtered_poll_ends_unmatched_and_further_on(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    produce(http, topic, {"body": "before", "tag": "other"})
    for wait_ms in (1_000, 5_000, 25_000):
        with ThreadPoolExecutor() as pool:
            end = pull(http, topic)["max_offset"]
            poll = hold(http, pool, lambda wait_ms=wait_ms: pull(http, topic, tags="mine", wait_ms=wait_ms))
            produce(http, topic, {"body": "x", "tag": "other"})
            answer = poll.result()
        assert answer["status"] == "no_matched_message"
        if answer["next_offset"] == end + 1:
            return
        assert answer["next_offset"] == end, "it ended before what came, on a slow machine"
    raise AssertionError("it did not go further")


def test_a_groups_poll_soon_answers_how_far_it_came_without_a_match(http: httpx.Client, topic: str) -> None:
    """Regression: a consumer that only met expired or filtered messages didn't know it until its long poll was over,
    and one that was closed before kept its lag."""
    put_topic(http, topic)
    produce(http, topic, {"body": "before", "tag": "other"})
    with ThreadPoolExecutor() as pool:
        nobodys = hold(http, pool, lambda: pull(http, topic, tags="mine", wait_ms=60_000))
        answer = pull(http, topic, tags="mine", group=topic, wait_ms=60_000)
        assert (answer["status"], answer["next_offset"]) == ("no_matched_message", 1)
        poll = hold(http, pool, lambda: pull(http, topic, 0, 1, tags="mine", group=topic, wait_ms=60_000), 1)
        produce(http, topic, {"body": "while it waits", "tag": "other"})
        assert poll.result()["next_offset"] == 2
        assert not nobodys.done()
        produce(http, topic, {"body": "yes", "tag": "mine"})
        assert nobodys.result()["next_offset"] == 3


@pytest.mark.parametrize("accept", [NDJSON, ARROW])
def test_a_poll_is_answered_in_the_form_it_asked_for(http: httpx.Client, topic: str, accept: str) -> None:
    put_topic(http, topic)
    answers: list[httpx.Response] = []

    def ask() -> dict[str, Any]:
        path = f"/v1/topics/{topic}/queues/0/messages?offset=0&wait_ms=60000"
        answers.append(http.get(path, headers={"Accept": accept}))
        return {}

    with ThreadPoolExecutor() as pool:
        poll = hold(http, pool, ask)
        produce(http, topic, "hello")
        poll.result()
    (answer,) = answers
    assert answer.headers["content-type"] == accept
    assert answer.headers["lakemq-status"] == "found"
    if accept == ARROW:
        assert read_arrow(answer.content).column("body").to_pylist() == [b"hello"]


def test_deleting_the_topic_answers_who_waits_for_more_of_it(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    with ThreadPoolExecutor() as pool:
        poll = hold(http, pool, lambda: pull(http, topic, wait_ms=60_000))
        produce(http, topic, "hello")
        assert poll.result()["status"] == "found"
        poll = hold(http, pool, lambda: pull(http, topic, 0, 1, wait_ms=60_000))
        assert http.delete(f"/v1/topics/{topic}").status_code == 200
        assert poll.result()["messages"] == []


def test_a_client_that_has_gone_is_waited_for_no_longer(
    gateway: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    """Else those that went could fill the bound on all who wait."""
    put_topic(http, topic)
    while waiting(http) > 0:  # of tests before
        pass
    with Connection(gateway) as connection:
        path = f"/v1/topics/{topic}/queues/0/messages?offset=0&wait_ms=60000"
        connection.send(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        while waiting(http) == 0:
            pass
    while waiting(http) > 0:
        pass
