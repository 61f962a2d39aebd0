"""How a topic is configured, and what it takes then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.testing import start_gateway
from tests.gateway.http_client import ARROW, connect, is_problem, produce, pull, pull_all, put_topic, write_arrow
from tests.gateway.receive.asking import bodies, receive
from tests.gateway.sinks.asking import commit, put_part

DEFAULT = {"message_type": "any", "ttl_ms": 0, "message_bytes_max": 0}


def config_of(http: httpx.Client, topic: str) -> dict[str, Any]:
    shown = http.get(f"/v1/topics/{topic}").json()
    return {name: shown[name] for name in DEFAULT}


def configure(http: httpx.Client, topic: str, **config: Any) -> httpx.Response:
    return http.put(f"/v1/topics/{topic}", json=config)


def send(http: httpx.Client, topic: str, *messages: dict[str, Any]) -> httpx.Response:
    return http.post(f"/v1/topics/{topic}/messages", json={"messages": messages})


def send_arrow(http: httpx.Client, topic: str, columns: dict[str, Any]) -> httpx.Response:
    headers = {"Content-Type": ARROW}
    return http.post(f"/v1/topics/{topic}/messages", content=write_arrow(columns), headers=headers)


def test_what_is_not_said_is_as_it_was(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    assert config_of(http, topic) == DEFAULT
    assert configure(http, topic, ttl_ms=5).status_code == 200
    assert configure(http, topic, message_type="normal").json()["ttl_ms"] == 5
    put_topic(http, topic, 2)
    assert config_of(http, topic) == {**DEFAULT, "ttl_ms": 5, "message_type": "normal"}
    listed = {each["topic"]: each for each in http.get("/v1/topics").json()["topics"]}
    assert listed[topic]["ttl_ms"] == 5
    http.delete(f"/v1/topics/{topic}")
    put_topic(http, topic)
    assert config_of(http, topic) == DEFAULT, "it is another topic"


@pytest.mark.parametrize(
    "config",
    [
        {"message_type": "x"},
        {"message_type": 1},
        {"ttl_ms": -1},
        {"ttl_ms": 2**63},
        {"ttl_ms": 1.5},
        {"message_bytes_max": -1},
        {"message_bytes_max": 2**40},
        {"retention": 1},
        {"ttl_ms": "1"},
        {"ttl_ms": True},
    ],
)
def test_what_can_not_be_is_refused_and_changes_nothing(http: httpx.Client, topic: str, config: dict[str, Any]) -> None:
    put_topic(http, topic)
    assert is_problem(configure(http, topic, queues=3, **config), 400, "invalid_request")
    assert config_of(http, topic) == DEFAULT
    assert len(http.get(f"/v1/topics/{topic}").json()["queues"]) == 1


def test_it_survives_a_kill_and_a_segment_s_end(tmp_path: Path) -> None:
    config = {"message_type": "fifo", "ttl_ms": 7, "message_bytes_max": 1_000}
    options = {"storage__segment_bytes": 1024 * 1024}
    with start_gateway(tmp_path / "data", **options) as process, connect(process) as http:
        assert configure(http, "t", queues=2, **config).status_code == 201
        http.get("/readyz")
        for _ in range(4):  # so the record is in a segment before the last one
            produce(http, "other", {"body": "x" * 500_000}, ack="sync")
        process.kill()
    with start_gateway(tmp_path / "data", **options) as process, connect(process) as http:
        assert config_of(http, "t") == config
        assert is_problem(send(http, "t", {"body": "x"}), 400, "wrong_message_type")
        assert configure(http, "t", **DEFAULT).status_code == 200
        produce(http, "t", "x", ack="sync")
        process.kill()
    with start_gateway(tmp_path / "data", **options) as process, connect(process) as http:
        assert config_of(http, "t") == DEFAULT


PLAIN: dict[str, Any] = {"body": "x"}
KEYED: dict[str, Any] = {**PLAIN, "ordering_key": "k"}
PINNED: dict[str, Any] = {**PLAIN, "queue_id": 0}
DELAYED: dict[str, Any] = {**PLAIN, "delay_ms": 1}
URGENT: dict[str, Any] = {**PLAIN, "priority": 0}


@pytest.mark.parametrize(
    ("message_type", "taken", "half"),
    [
        ("any", [PLAIN, KEYED, PINNED, DELAYED], True),
        ("normal", [PLAIN, PINNED], False),
        ("fifo", [KEYED, PINNED], False),
        ("delay", [DELAYED], False),
        ("transaction", [], True),
        ("priority", [PLAIN, PINNED, URGENT], False),
    ],
)
def test_a_topic_takes_messages_of_its_type_by_every_road(
    http: httpx.Client, topic: str, message_type: str, taken: list[dict[str, Any]], half: bool
) -> None:
    put_topic(http, topic, 2)
    produce(http, topic, "before")
    assert configure(http, topic, message_type=message_type).status_code == 200
    for message in (PLAIN, KEYED, PINNED, DELAYED, URGENT):
        arrow = {name: [value.encode() if name == "body" else value] for name, value in message.items()}
        if "delay_ms" in arrow:
            arrow["deliver_at_ms"] = arrow.pop("delay_ms")
        for answer in (send(http, topic, message), send_arrow(http, topic, arrow)):
            assert answer.status_code == 200 if message in taken else is_problem(answer, 400, "wrong_message_type")
        both = send(http, topic, message, PLAIN)
        assert (both.status_code == 200) == (message in taken and PLAIN in taken), both.text
    raw = http.post(f"/v1/topics/{topic}/messages", content=b"raw")
    assert (raw.status_code == 200) == (PLAIN in taken), raw.text
    with_tag = http.post(f"/v1/topics/{topic}/messages", content=b"raw", headers={"Lakemq-Tag": "a"})
    assert (with_tag.status_code == 200) == (PLAIN in taken), with_tag.text
    begun = f"/v1/topics/{topic}/transactions?producer_group=p"
    for answer in (http.post(begun, content=b"raw"), http.post(begun, json={"messages": [PLAIN]})):
        assert (answer.status_code == 200) == half, answer.text
    asked = http.post(f"/v1/topics/{topic}/requests?timeout_ms=1", content=b"raw")
    assert (asked.status_code == 504) == (PLAIN in taken), asked.text


def test_a_batch_of_columns_is_refused_for_one_row(http: httpx.Client, topic: str) -> None:
    configure(http, topic, queues=2, message_type="fifo")
    columns = {"body": [b"a", b"b", b"c"], "ordering_key": ["k", None, "k"], "queue_id": [None, 1, None]}
    assert send_arrow(http, topic, columns).status_code == 200
    columns["queue_id"] = [0, None, 0]
    assert is_problem(send_arrow(http, topic, columns), 400, "wrong_message_type")


def test_a_body_is_no_larger_than_the_topic_allows(http: httpx.Client, topic: str) -> None:
    configure(http, topic, queues=1, message_bytes_max=10)
    assert send(http, topic, {"body": "x" * 10}).status_code == 200
    assert is_problem(send(http, topic, {"body": "x" * 11}), 413, "message_too_large")
    assert is_problem(http.post(f"/v1/topics/{topic}/messages", content=b"x" * 11), 413, "message_too_large")
    assert is_problem(send_arrow(http, topic, {"body": [b"x", b"x" * 11]}), 413, "message_too_large")
    assert configure(http, topic, message_bytes_max=0).status_code == 200
    assert send(http, topic, {"body": "x" * 11}).status_code == 200


def test_a_part_of_a_sink_is_held_against_its_topic_as_it_is_staged(http: httpx.Client, topic: str) -> None:
    configure(http, topic, queues=3, message_type="normal", message_bytes_max=5)
    for code, columns in {
        "wrong_message_type": {"body": [b"x"], "priority": [1]},
        "message_too_large": {"body": [b"x" * 6]},
    }.items():
        assert put_part(http, topic, 1, "a", columns, topic=topic).json()["code"] == code
    assert put_part(http, topic, 1, "a", {"body": [b"x"]}, topic=topic).status_code == 200
    configure(http, topic, message_type="priority")
    columns = {"body": [b"2", b"0", b"1"], "priority": [2, None, 1], "ttl_ms": [60_000, None, 60_000]}
    assert put_part(http, topic, 1, "b", columns, topic=topic).status_code == 200
    assert put_part(http, topic, 1, "c", {"body": [b"x"], "priority": [3]}, topic=topic).status_code == 400
    configure(http, topic, message_type="fifo")
    assert commit(http, topic, 1, "a", "b").status_code == 200, "what was staged is stored"
    assert sorted(bodies(pull_all(http, topic))) == ["0", "1", "2", "x"]


# Priorities ----------------------------------------------------------------------------------


def test_a_priority_is_a_queue_of_a_topic_of_priorities(http: httpx.Client, topic: str) -> None:
    configure(http, topic, queues=3, message_type="priority")
    placed = produce(
        http,
        topic,
        {"body": "2", "priority": 2},
        {"body": "0"},
        {"body": "1", "queue_id": 1},
        {"body": "0", "priority": 0},
    )
    assert [each["queue_id"] for each in placed] == [2, 0, 1, 0]
    columns = {"body": [b"2", b"0", b"1"], "priority": [2, None, None], "queue_id": [None, None, 1]}
    assert send_arrow(http, topic, columns).status_code == 200
    assert send_arrow(http, topic, {"body": [b"0", b"0"]}).status_code == 200
    raw = http.post(f"/v1/topics/{topic}/messages", content=b"1", headers={"Lakemq-Priority": "1"})
    assert raw.json()["messages"][0]["queue_id"] == 1
    for queue_id in range(3):
        found = pull(http, topic, queue_id)["messages"]
        assert set(bodies(found)) == {str(queue_id)}
    assert pull(http, topic, 2)["messages"][0]["priority"] == 2


@pytest.mark.parametrize("wrong", [{"priority": 3}, {"priority": 1, "queue_id": 2}])
def test_a_priority_that_there_is_not_and_another_queue_are_refused(
    http: httpx.Client, topic: str, wrong: dict[str, Any]
) -> None:
    configure(http, topic, queues=3, message_type="priority")
    assert is_problem(send(http, topic, {"body": "x", **wrong}), 400, "wrong_message_type")
    columns = {"body": [b"y", b"x"], **{name: [None, value] for name, value in wrong.items()}}
    assert is_problem(send_arrow(http, topic, columns), 400, "wrong_message_type")


def test_a_delay_has_no_priority_and_a_priority_no_delay(http: httpx.Client, topic: str) -> None:
    configure(http, topic, queues=3, message_type="priority")
    assert is_problem(send(http, topic, {"body": "x", "priority": 1, "delay_ms": 5}), 400, "wrong_message_type")


def test_the_highest_priority_is_received_first_and_none_waits_for_ever(http: httpx.Client, topic: str) -> None:
    configure(http, topic, queues=3, message_type="priority")
    produce(http, topic, *({"body": str(number % 3), "priority": number % 3} for number in range(30)))
    group = f"g-{topic}"
    assert bodies(receive(http, group, topic, max=25)) == ["2"] * 10 + ["1"] * 10 + ["0"] * 5
    other = f"other-{topic}"
    order = [bodies(receive(http, other, topic, max=1))[0] for _ in range(30)]
    assert order[:7] == ["2"] * 7
    assert {"0", "1"} <= set(order[:24]), "one in eight begins with another one"
    assert sorted(order) == ["0"] * 10 + ["1"] * 10 + ["2"] * 10
