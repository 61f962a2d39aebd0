"""Received messages as views of columns, and of JSON."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from lakemq.client import MessageQueue, MessageView, Producer
from lakemq.client.http import HttpClient
from lakemq.client.message import encode_message
from lakemq.client.view import Rows
from lakemq.testing import GatewayProcess

NAMES = (
    *("message_id", "topic", "queue_id", "queue_offset", "position", "store_time_ms", "born_time_ms"),
    *("reconsume_times", "body", "tag", "keys", "properties", "ordering_key", "deliver_at_ms", "real_topic"),
    *("real_queue_id", "origin_message_id", "transaction_id"),
)


def said(view: MessageView) -> dict[str, Any]:
    return {name: getattr(view, name) for name in NAMES} | {"keys": list(view.keys)}


def test_both_forms_say_the_same(gateway: GatewayProcess, topic: str) -> None:
    with Producer(gateway.url) as producer, HttpClient(gateway.url) as http:
        producer.send(topic, "plain", queue_id=1)
        producer.send(topic, b"\xff", tag="t", keys=["a", "b"], properties={"x": "y", "z": ""}, queue_id=1)
        producer.send(topic, "keyed", ordering_key="k", queue_id=1, properties={"n": "1"})
        pulled = http.pull_table(topic, 1, 0)
        listed = [encode_message(message) for message in http.pull(topic, 1, 0).messages]
    by_column, by_json = Rows.of_table(pulled.table), Rows.of_json(listed)
    assert [said(view) for view in by_column] == [said(view) for view in by_json]
    second = by_column[1]
    assert (second.body, second.tag, second.keys, second.properties) == (b"\xff", "t", ["a", "b"], {"x": "y", "z": ""})
    assert second.queue == MessageQueue(topic, second.broker, 1)
    assert (by_column[0].properties, by_column[0].keys, by_column[0].tag) == ({}, (), None)
    assert (second.receipt, second.invisible_until_ms) == (None, None)
    assert [view.queue_offset for view in by_column[1:]] == [1, 2]
    assert by_column[-1].ordering_key == "k"


def test_a_body_is_read_as_text_or_json() -> None:
    view = MessageView.of({"body": '{"a": [1]}', "message_id": "b.1", "topic": "t", "queue_id": 0, "queue_offset": 5})
    assert view.text() == '{"a": [1]}'
    assert view.json() == {"a": [1]}
    assert repr(view) == """<MessageView b.1 t/0@5 b'{"a": [1]}'>"""
    with pytest.raises(ValueError, match="literal"):
        MessageView.of({"body": "no"}).json()
    with pytest.raises(UnicodeDecodeError):
        MessageView.of({"body": "/w==", "body_encoding": "base64"}).text()


def test_the_topic_of_a_retry_is_the_one_it_was_sent_to() -> None:
    retry = {"message_id": "b.1", "topic": "%RETRY%g", "queue_id": 0, "real_topic": "t"}
    received = {**retry, "topic": "t", "stored_topic": "%RETRY%g"}
    for view in (MessageView.of(retry), MessageView.of(received)):
        assert (view.topic, view.real_topic, view.stored_topic) == ("t", "t", "%RETRY%g")
        assert view.queue == MessageQueue("%RETRY%g", "b", 0)
    dead = MessageView.of({**retry, "topic": "%DLQ%g"})
    assert (dead.topic, dead.real_topic, dead.stored_topic) == ("%DLQ%g", "t", "%DLQ%g")


def test_maps_of_sliced_and_chunked_columns() -> None:
    maps: list[dict[str, str] | None] = [{"n": str(number)} if number % 3 else None for number in range(20)]
    kind = pa.map_(pa.string(), pa.string())
    chunks = [pa.array(maps[:7], kind), pa.array(maps[7:], kind)]
    table = pa.table({"properties": pa.chunked_array(chunks)}).slice(3, 12)
    assert [view.properties for view in Rows.of_table(table)] == [each or {} for each in maps[3:15]]
