"""Priorities and times to live, by the client's producers and consumers."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from lakemq.client import Message, MessageView, Producer, PushConsumer
from lakemq.client.http import HttpClient
from lakemq.model.errors import InvalidRequest, WrongMessageType
from lakemq.testing import GatewayProcess
from tests.client.consuming import WAIT_S_MAX, Seen, put, wait_until
from tests.client.producing import stored
from tests.gateway.http_client import connect


def configure(gateway: GatewayProcess, topic: str, queues: int, **config: str | int) -> None:
    with HttpClient(gateway.url) as http:
        assert http.create_topic(topic, queues, config=config)


def test_a_producer_says_how_long_and_how_urgent(gateway: GatewayProcess, topic: str) -> None:
    configure(gateway, topic, 3, message_type="priority")
    with Producer(gateway.url) as producer:
        assert producer.send(topic, "one", priority=2, ttl_ms=60_000).queue_id == 2
        futures = [producer.send_async(topic, str(number), priority=number % 3) for number in range(300)]
        assert [future.result().queue_id for future in futures] == [number % 3 for number in range(300)]
        batch = [Message(body="b", priority=1), Message(body="b"), Message(body="b", priority=2)]
        assert [receipt.queue_id for receipt in producer.send_batch(topic, batch)] == [1, 0, 2]
    first = next(message for message in stored(gateway.url, topic) if message.text() == "one")
    assert (first.priority, first.ttl_ms) == (2, 60_000)


def test_many_with_a_time_to_live_go_as_columns(gateway: GatewayProcess, topic: str) -> None:
    with Producer(gateway.url) as producer:
        for future in [producer.send_async(topic, "x", ttl_ms=60_000 + number) for number in range(500)]:
            future.result()
    assert sorted(message.ttl_ms or 0 for message in stored(gateway.url, topic)) == list(range(60_000, 60_500))


def test_a_message_that_the_topic_does_not_take_fails_alone(gateway: GatewayProcess, topic: str) -> None:
    configure(gateway, topic, 1, message_type="normal")
    with Producer(gateway.url) as producer:
        with pytest.raises(WrongMessageType):
            producer.send(topic, "x", priority=0)
        with pytest.raises(WrongMessageType):
            producer.send(topic, "x", ordering_key="k")
        with pytest.raises(InvalidRequest):
            producer.send(topic, "x", ttl_ms=0)
        assert producer.send(topic, "x").queue_id == 0


def pulled(gateway: GatewayProcess) -> float:
    """How many messages pulls were answered so far."""
    with connect(gateway) as http:
        lines = http.get("/metrics").text.splitlines()
    return float(next(each for each in lines if each.startswith("lakemq_messages_out_total")).split()[1])


def test_a_push_consumer_hands_out_the_highest_first(gateway: GatewayProcess, topic: str, group: str) -> None:
    configure(gateway, topic, 3, message_type="priority")
    put(gateway.url, topic, ["first"], priority=2)
    begun, go_on, seen = threading.Event(), threading.Event(), Seen()

    def listen(message: MessageView) -> None:
        begun.set()
        assert go_on.wait(WAIT_S_MAX)
        seen.add(message)

    with PushConsumer(group, listen, brokers=gateway.url, consume_from="first", concurrency=1) as consumer:
        consumer.subscribe(topic)
        assert begun.wait(WAIT_S_MAX)
        before = pulled(gateway)
        for priority in (2, 1, 0):  # in turn, if it were not by priority
            put(gateway.url, topic, [f"{priority}"] * 20, priority=priority)
        wait_until(lambda: pulled(gateway) == before + 60)
        go_on.set()
        wait_until(lambda: len(seen.texts) == 61)
    assert seen.texts[:7] == ["first", *["2"] * 6]
    assert sorted(seen.texts[1:]) == ["0"] * 20 + ["1"] * 20 + ["2"] * 20


def test_a_push_consumer_that_is_resumed_begins_with_the_highest(
    gateway: GatewayProcess, topic: str, group: str
) -> None:
    """Regression: it began with the first queue, whatever waited in the others."""
    configure(gateway, topic, 3, message_type="priority")
    put(gateway.url, topic, ["first"], priority=2)
    begun, go_on, seen = threading.Event(), threading.Event(), Seen()

    def listen(message: MessageView) -> None:
        begun.set()
        assert go_on.wait(WAIT_S_MAX)
        seen.add(message)

    with PushConsumer(group, listen, brokers=gateway.url, consume_from="first", concurrency=1) as consumer:
        consumer.subscribe(topic)
        assert begun.wait(WAIT_S_MAX)
        engine: Any = consumer._engine  # pyright: ignore[reportPrivateUsage]
        for priority in range(3):
            put(gateway.url, topic, [f"{priority}"], priority=priority)
        wait_until(lambda: sum(each.process.waiting for each in engine._held.values() if each.process) == 3)
        consumer.pause()
        go_on.set()
        wait_until(lambda: not engine._workers._running)
        assert seen.texts == ["first"]
        consumer.resume()
        wait_until(lambda: len(seen.texts) == 4)
    assert seen.texts == ["first", "2", "1", "0"]
