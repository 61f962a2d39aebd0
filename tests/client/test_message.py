"""A message as JSON."""

from __future__ import annotations

from lakemq.client import MessageView
from lakemq.client.message import encode_draft, encode_message
from lakemq.model.message import Draft

PLACE = {
    "message_id": "broker-a.7",
    "topic": "orders",
    "queue_id": 1,
    "queue_offset": 3,
    "position": 7,
    "store_time_ms": 1_790_000_000_000,
    "born_time_ms": 1_790_000_000_000,
    "reconsume_times": 0,
}


def test_a_draft_says_only_what_it_has() -> None:
    assert encode_draft(Draft("grüß".encode())) == {"body": "grüß"}


def test_a_draft_keeps_a_queue_id_of_0() -> None:
    assert encode_draft(Draft(b"x", queue_id=0)) == {"body": "x", "queue_id": 0}


def test_a_body_that_is_no_utf8_goes_as_base64() -> None:
    assert encode_draft(Draft(b"\xff\x00")) == {"body": "/wA=", "body_encoding": "base64"}


def test_a_message_survives_the_way_through_json() -> None:
    content = {**PLACE, "body": "/wA=", "body_encoding": "base64", "keys": ["k"], "tag": "t"}
    message = MessageView.of(content)
    assert message.body == b"\xff\x00"
    assert message.keys == ["k"]
    assert encode_message(message) == content


def test_fields_of_a_later_version_are_left_out() -> None:
    message = MessageView.of({**PLACE, "body": "x", "body_encoding": "utf-8", "colour": "red"})
    assert message.body == b"x"


def test_the_topic_of_a_retry_is_the_one_it_was_sent_to() -> None:
    pulled = {**PLACE, "topic": "%RETRY%g", "real_topic": "orders", "body": "x", "body_encoding": "utf-8"}
    received = {**pulled, "topic": "orders", "stored_topic": "%RETRY%g"}
    for content in (pulled, received):
        message = MessageView.of(content)
        assert (message.topic, message.real_topic, message.stored_topic) == ("orders", "orders", "%RETRY%g")
        assert encode_message(message) | {"body_encoding": "utf-8"} == received
    dead = MessageView.of({**pulled, "topic": "%DLQ%g"})
    assert (dead.topic, dead.stored_topic) == ("%DLQ%g", "%DLQ%g")
