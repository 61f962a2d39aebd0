"""Messages that are delivered later."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from lakemq.testing import start_gateway
from tests.gateway.http_client import (
    ARROW,
    connect,
    is_problem,
    produce,
    produce_arrow,
    pull,
    pull_all,
    put_topic,
    write_arrow,
)
from tests.gateway.routing.asking import decide, log_of, now_ms, position, wait_until
from tests.gateway.timed import Timed

HOUR_MS = 3_600_000


def delivered(http: httpx.Client, topic: str, count: int) -> list[dict[str, Any]]:
    """The topic's messages, once there are so many."""
    wait_until(lambda: len(pull_all(http, topic)) >= count)
    return pull_all(http, topic)


@pytest.fixture
def timed(tmp_path: Path) -> Iterator[Timed]:
    with Timed(tmp_path) as made:
        yield made


@pytest.mark.parametrize("delay", [{"delay_level": 1}, {"delay_ms": 250}, {"deliver_at_ms": -1}])
def test_a_delayed_message_comes_once_and_never_early(timed: Timed, topic: str, delay: dict[str, int]) -> None:
    http = timed.http
    if "deliver_at_ms" in delay:
        delay = {"deliver_at_ms": timed.now_ms() + HOUR_MS}
    put_topic(http, topic, queues=3)
    fields = {"body": "x", "tag": "T", "keys": ["k"], "properties": {"a": "b"}, "queue_id": 2}
    (sent,) = produce(http, topic, {**fields, **delay})
    waiting = http.get(f"/v1/messages/{sent['message_id']}").json()
    assert (waiting["topic"], waiting["real_topic"], waiting["real_queue_id"]) == ("SCHEDULE_TOPIC_XXXX", topic, 2)
    if "deliver_at_ms" in delay:
        assert pull_all(http, topic) == []
        timed.pass_ms(HOUR_MS)
    (message,) = delivered(http, topic, 1)
    assert message["store_time_ms"] >= waiting["deliver_at_ms"] == message["deliver_at_ms"]
    assert {name: message[name] for name in fields} == fields
    assert message["origin_message_id"] == sent["message_id"]
    assert message["born_time_ms"] == waiting["store_time_ms"]
    assert "real_topic" not in message
    assert "real_queue_id" not in message


def test_no_delay_and_a_time_that_is_past_is_at_once(http: httpx.Client, topic: str) -> None:
    sent = produce(
        http, topic, {"body": "a", "delay_level": 0}, {"body": "b", "delay_ms": 0}, {"body": "c", "deliver_at_ms": 1}
    )
    assert [message["message_id"] for message in pull_all(http, topic)] == [each["message_id"] for each in sent]


def test_a_level_above_the_highest_is_the_highest(http: httpx.Client, topic: str) -> None:
    (sent,) = produce(http, topic, {"body": "x", "delay_level": 1_000})
    waiting = http.get(f"/v1/messages/{sent['message_id']}").json()
    assert waiting["deliver_at_ms"] - waiting["store_time_ms"] in range(2 * HOUR_MS - 1_000, 2 * HOUR_MS + 1)


@pytest.mark.parametrize("delay", [{"delay_ms": 367 * 24 * HOUR_MS}, {"deliver_at_ms": 2**52}])
def test_more_than_a_year_is_refused(http: httpx.Client, topic: str, delay: dict[str, int]) -> None:
    response = http.post(f"/v1/topics/{topic}/messages", json={"messages": [{"body": "x", **delay}]})
    assert is_problem(response, 400, "invalid_request")
    if "deliver_at_ms" in delay:
        columns = {"body": pa.array([b"x"], pa.binary()), "deliver_at_ms": pa.array([2**52], pa.int64())}
        response = http.post(
            f"/v1/topics/{topic}/messages", content=write_arrow(columns), headers={"Content-Type": ARROW}
        )
        assert is_problem(response, 400, "invalid_request")


def test_rows_of_an_arrow_request_are_delivered_each_at_its_time(timed: Timed, topic: str) -> None:
    http, due = timed.http, timed.now_ms() + HOUR_MS
    put_topic(http, topic, queues=2)
    columns = {
        "body": pa.array([b"0", b"1", b"2", b"3"], pa.binary()),
        "queue_id": pa.array([1, 0, 1, None], pa.int32()),
        "deliver_at_ms": pa.array([due, None, due + 1, 5], pa.int64()),
    }
    answer = produce_arrow(http, topic, columns)
    assert answer["count"] == 4
    assert {message["body"] for message in pull_all(http, topic)} == {"1", "3"}
    timed.pass_ms(HOUR_MS)
    messages = delivered(http, topic, 4)
    assert [message["body"] for message in pull(http, topic, 1)["messages"] if message["body"] in "02"] == ["0", "2"]
    assert all(message["store_time_ms"] >= message.get("deliver_at_ms", 0) for message in messages)


def test_a_message_is_recalled_before_it_is_due_and_not_after(timed: Timed, topic: str) -> None:
    http = timed.http
    kept, recalled = produce(http, topic, {"body": "a", "delay_ms": HOUR_MS}, {"body": "b", "delay_ms": HOUR_MS})
    for _ in range(2):
        response = http.delete(f"/v1/messages/{recalled['message_id']}")
        assert (response.status_code, response.json()["recalled"]) == (200, True)
    timed.pass_ms(HOUR_MS)
    assert [message["body"] for message in delivered(http, topic, 1)] == ["a"]
    assert is_problem(http.delete(f"/v1/messages/{kept['message_id']}"), 409, "already_delivered")
    (plain,) = produce(http, topic, "c")
    assert is_problem(http.delete(f"/v1/messages/{plain['message_id']}"), 400, "invalid_request")
    assert is_problem(http.delete("/v1/messages/broker-a.999999999"), 404, "message_not_found")
    assert is_problem(http.delete("/v1/messages/other.1"), 404, "message_not_found")


def test_a_repeated_request_schedules_once(http: httpx.Client, topic: str) -> None:
    request = {"messages": [{"body": "x", "delay_ms": 200}]}
    answers = [
        http.post(f"/v1/topics/{topic}/messages", json=request, headers={"Idempotency-Key": topic}).json()
        for _ in range(2)
    ]
    assert answers[0] == answers[1]
    assert len(delivered(http, topic, 1)) == 1


def test_a_decision_counts_once_and_never_makes_a_message_early(http: httpx.Client, topic: str) -> None:
    (sent,) = produce(http, topic, {"body": "x", "delay_ms": 60_000})
    cause = position(sent["message_id"])
    assert decide(http, "deliver", [cause], 0) == {"accepted": 1, "ignored": 0}
    assert pull_all(http, topic) == []
    assert http.delete(f"/v1/messages/{sent['message_id']}").status_code == 200
    assert decide(http, "deliver", [cause], 0) == {"accepted": 0, "ignored": 1}
    assert decide(http, "deliver", [0, 2**40], 0) == {"accepted": 0, "ignored": 2}


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"cause": [1], "action": ["deliver"], "due_ms": []},
        {"cause": [-1], "action": ["deliver"], "due_ms": [None]},
        {"cause": [1], "action": ["explode"], "due_ms": [None]},
        {"cause": ["1"], "action": ["deliver"], "due_ms": [None]},
        {"cause": [1], "action": ["retry"], "due_ms": [None]},
    ],
)
def test_decisions_that_are_none_are_refused(http: httpx.Client, body: dict[str, Any]) -> None:
    of_log = log_of(http) if body else {}
    assert is_problem(http.post("/v1/log/decisions", json=body | of_log), 400, "invalid_request")


def test_what_waits_survives_a_kill_and_an_hour_and_comes_once(tmp_path: Path) -> None:
    with start_gateway(tmp_path, routing__lead_ms=0, routing__grace_ms=-1) as gateway, connect(gateway) as http:
        sent = produce(http, "t", *({"body": str(number), "delay_ms": 1_800_000 + number} for number in range(50)))
        decide(http, "deliver", [position(each["message_id"]) for each in sent[:20]], now_ms() + 1_800_000)
        gateway.kill()
    with start_gateway(tmp_path, clock_offset_ms=HOUR_MS, routing__grace_ms=-1) as gateway, connect(gateway) as http:
        assert len(delivered(http, "t", 20)) == 20
        waiting = http.get("/v1/routing").json()["delay"]
        assert (waiting["waiting"], waiting["begin_position"]) == (30, position(sent[20]["message_id"]))
        assert decide(http, "deliver", [position(each["message_id"]) for each in sent])["accepted"] == 30
        bodies = [message["body"] for message in pull_all(http, "t")]
        assert sorted(map(int, bodies)) == list(range(50))
        gateway.kill()
    with start_gateway(tmp_path, clock_offset_ms=HOUR_MS, routing__grace_ms=-1) as gateway, connect(gateway) as http:
        assert decide(http, "deliver", [position(each["message_id"]) for each in sent])["accepted"] == 0
        assert len(pull_all(http, "t")) == 50


def test_metrics_say_what_waits(tmp_path: Path) -> None:
    with start_gateway(tmp_path, routing__lead_ms=600_000) as gateway, connect(gateway) as http:
        produce(http, "t", {"body": "x", "delay_ms": HOUR_MS}, {"body": "y", "delay_ms": 500_000})
        metrics = http.get("/metrics").text
    assert 'lakemq_waiting{kind="delay"} 2.0' in metrics
    assert "lakemq_due_soon 1.0" in metrics


def test_what_waits_for_a_deleted_topic_is_dropped(timed: Timed, topic: str) -> None:
    http = timed.http
    produce(http, topic, {"body": "x", "delay_ms": HOUR_MS})
    assert http.delete(f"/v1/topics/{topic}").status_code == 200
    assert http.get("/v1/topics/RMQ_SYS_DECISION_TOPIC").status_code == 404
    timed.pass_ms(HOUR_MS)
    wait_until(lambda: any(message.get("tag") == "drop" for message in pull_all(http, "RMQ_SYS_DECISION_TOPIC")))
    assert http.get(f"/v1/topics/{topic}").status_code == 404


def test_too_many_that_wait_are_flow_control(tmp_path: Path) -> None:
    with start_gateway(tmp_path, delay__waiting_max=2) as gateway, connect(gateway) as http:
        produce(http, "t", {"body": "x", "delay_ms": 60_000}, {"body": "x", "delay_ms": 60_000})
        response = http.post("/v1/topics/t/messages", json={"messages": [{"body": "x", "delay_ms": 1}]})
        assert is_problem(response, 429, "flow_control")
        assert response.headers["retry-after"]
        produce(http, "t", "now")


def test_a_segment_leaves_and_what_waits_in_it_moves_on(tmp_path: Path) -> None:
    settings = {"storage__segment_bytes": 2**20, "storage__retention_ms": 0, "routing__grace_ms": -1}
    settings |= {"storage__compacted_grace_ms": 0, "lake__verify": 0}
    with start_gateway(tmp_path, **settings) as gateway, connect(gateway) as http:
        early, late = produce(http, "t", {"body": "a", "delay_ms": 1_800_000}, {"body": "b", "delay_ms": 1_900_000})
        for _ in range(3):
            produce(http, "u", secrets.token_hex(2**20))
        end = http.get("/v1/broker").json()["max_position"]
        assert http.put("/v1/broker/compacted", json={"compacted_position": end}).status_code == 200
        wait_until(lambda: http.get("/v1/broker").json()["min_position"] > position(late["message_id"]))
        assert http.get("/v1/routing").json()["delay"]["waiting"] == 2
        assert http.delete(f"/v1/messages/{early['message_id']}").status_code == 200
        gateway.kill()
    with start_gateway(tmp_path, clock_offset_ms=HOUR_MS, **settings) as gateway, connect(gateway) as http:
        (cause,) = [http.get("/v1/routing").json()["delay"]["begin_position"]]
        decide(http, "deliver", [cause])
        (message,) = delivered(http, "t", 1)
        assert (message["body"], message["origin_message_id"]) == ("b", late["message_id"])
