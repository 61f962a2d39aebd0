"""Simple consumers against a real gateway."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from datetime import timedelta

import pytest

from lakemq.client import AckStatus, Closed, MessageView, PullConsumer, SimpleConsumer, Unreachable, aio
from lakemq.model.errors import (
    InvalidFilter,
    InvalidRequest,
    InvalidTopic,
    MessageNotFound,
    ReceiptExpired,
    TopicNotFound,
)
from lakemq.testing import GatewayProcess
from tests.client.consuming import is_there, make_topic, numbered, put, wait_until
from tests.client.producing import stored


def receive_all(consumer: SimpleConsumer, topic: str, count: int) -> list[MessageView]:
    """Receive until so many have come."""
    messages: list[MessageView] = []
    while len(messages) < count:
        found = consumer.receive(topic, 10, wait_s=60)
        assert found, f"{len(messages)} of {count} came"
        messages += found
    return messages


def test_each_message_is_handed_out_once_and_not_again_once_acknowledged(
    gateway: GatewayProcess, topic: str, group: str
) -> None:
    put(gateway.url, topic, numbered(50), tag="A")
    with SimpleConsumer(group, brokers=gateway.url) as one, SimpleConsumer(group, brokers=gateway.url) as two:
        messages = [*receive_all(one, topic, 25), *two.receive(topic, 100, wait_s=0)]
        messages += one.receive(topic, 100, wait_s=0)
        assert Counter(message.text() for message in messages) == Counter(numbered(50))
        assert two.ack(messages) == ["ok"] * 50
        one.ack(messages[0])  # twice is fine
        assert one.receive(topic, wait_s=0) == []


def test_what_is_not_acknowledged_in_time_comes_again(brisk: GatewayProcess, topic: str, group: str) -> None:
    put(brisk.url, topic, ["once"])
    with SimpleConsumer(group, brokers=brisk.url, max_reconsume_times=1) as consumer:
        assert consumer.ack(consumer.receive(topic)) == ["ok"]
        put(brisk.url, topic, ["twice"])
        [late] = consumer.receive(topic, invisible_s=0.2)
        [again] = consumer.receive(topic, invisible_s=0.2)
        assert (again.text(), again.reconsume_times, again.real_topic) == ("twice", 1, topic)
        assert consumer.ack([late]) == [AckStatus.RECEIPT_EXPIRED]
        with pytest.raises(ReceiptExpired):
            consumer.ack(late)
        with pytest.raises(ReceiptExpired):
            consumer.change_invisible(late, 1)
        wait_until(lambda: is_there(brisk.url, f"%DLQ%{group}"))
        assert consumer.receive(topic, wait_s=1.0) == []
    assert [message.body for message in stored(brisk.url, f"%DLQ%{group}")] == [b"twice"]


def test_what_is_nacked_comes_again_once(brisk: GatewayProcess, topic: str, group: str) -> None:
    """Regression: it came again by the nack, and once more as its receipt ran out."""
    put(brisk.url, topic, ["x", "poison"])
    with SimpleConsumer(group, brokers=brisk.url) as consumer:
        messages = receive_all(consumer, topic, 2)
        [poison] = [message for message in messages if message.text() == "poison"]
        [fine] = [message for message in messages if message.text() == "x"]
        consumer.nack(poison, -1)
        consumer.nack(poison)  # twice is fine
        assert consumer.nack([poison, fine, fine], 1) == ["duplicate", "ok", "ok"]
        assert consumer.ack(messages) == ["receipt_expired"] * 2
        [again] = consumer.receive(topic, wait_s=20)
        assert (again.text(), again.reconsume_times) == ("x", 1)
        consumer.ack(again)
        with pytest.raises(ReceiptExpired):
            consumer.nack(again)
        assert consumer.receive(topic, wait_s=0) == []
    assert [message.body for message in stored(brisk.url, f"%DLQ%{group}")] == [b"poison"]


def test_invisibility_is_changed(brisk: GatewayProcess, topic: str, group: str) -> None:
    put(brisk.url, topic, ["m"])
    with SimpleConsumer(group, brokers=brisk.url) as consumer:
        for invisible_s in (0.3, 3, 30):  # until it is changed in time
            [message] = consumer.receive(topic, invisible_s=invisible_s)
            receipt, until_ms = message.receipt, message.invisible_until_ms
            with suppress(ReceiptExpired):
                consumer.change_invisible(message, 600)
                break
        assert message.receipt != receipt
        assert (message.invisible_until_ms or 0) > (until_ms or 0)
        assert consumer.receive(topic, wait_s=invisible_s + 0.2) == []
        consumer.change_invisible(message, 0)
        [again] = consumer.receive(topic)
        assert again.reconsume_times == message.reconsume_times + 1
        consumer.ack(again)


def test_filters_choose_what_is_received(gateway: GatewayProcess, topic: str, group: str) -> None:
    make_topic(gateway.url, topic)
    for tag in "AB":
        put(gateway.url, topic, [tag], tag=tag, properties={"size": str(ord(tag))})
    with SimpleConsumer(group, brokers=gateway.url) as consumer:
        assert [message.text() for message in consumer.receive(topic, tags="A", wait_s=1)] == ["A"]
    with SimpleConsumer(f"{group}-sql", brokers=gateway.url) as consumer:
        assert [message.text() for message in consumer.receive(topic, sql="size > 65", wait_s=1)] == ["B"]
        with pytest.raises(InvalidFilter):
            consumer.receive(topic, sql="size >< 65")


def test_of_one_ordering_key_only_one_is_out(gateway: GatewayProcess, topic: str, group: str) -> None:
    make_topic(gateway.url, topic, 1)
    put(gateway.url, topic, numbered(4, "a"), ordering_key="a")
    with SimpleConsumer(group, brokers=gateway.url, ordered=True) as consumer:
        order: list[str] = []
        while len(order) < 4:
            [message] = consumer.receive(topic, 1)
            assert consumer.receive(topic, 1, wait_s=0) == []
            order.append(message.text())
            consumer.ack(message)
    assert order == numbered(4, "a")


def test_several_brokers_are_asked_in_turn(
    two_brokers: tuple[GatewayProcess, GatewayProcess], topic: str, group: str
) -> None:
    one, two = two_brokers
    with SimpleConsumer(group, brokers=[one.url, two.url]) as consumer:
        with pytest.raises(TopicNotFound):
            consumer.receive(topic, wait_s=0)
        put(one.url, topic, numbered(5, "one"))
        put(two.url, topic, numbered(5, "two"))
        messages = receive_all(consumer, topic, 10)
        assert {message.broker for message in messages} == {"broker-a", "broker-b"}
        assert consumer.ack(messages) == ["ok"] * 10
        assert consumer.receive(topic, wait_s=1.1) == []


def test_the_asyncio_face_is_the_same(gateway: GatewayProcess, topic: str, group: str) -> None:
    put(gateway.url, topic, ["m"])

    async def run() -> list[AckStatus]:
        async with aio.SimpleConsumer(group, brokers=gateway.url) as consumer:
            [message] = await consumer.receive(topic, wait_s=timedelta(seconds=60))
            await consumer.change_invisible(message, timedelta(seconds=20))
            await consumer.ack(message)
            return await consumer.ack([message])

    assert asyncio.run(run()) == [AckStatus.OK]


def test_iteration_gets_what_is_there_and_ends_when_nothing_comes(
    gateway: GatewayProcess, topic: str, group: str
) -> None:
    put(gateway.url, topic, numbered(7), tag="A")
    put(gateway.url, topic, ["other"], tag="B")
    with SimpleConsumer(group, brokers=gateway.url, topic=topic, tags="A") as consumer:
        seen: list[str] = []
        for message in consumer.messages(max_messages=3, idle_s=0.5):
            seen.append(message.text())
            consumer.ack(message)
        assert sorted(seen) == sorted(numbered(7))
        assert list(consumer.messages(idle_s=0)) == []


def test_iteration_goes_on_until_the_consumer_is_closed(gateway: GatewayProcess, topic: str, group: str) -> None:
    put(gateway.url, topic, ["first"])

    async def run() -> list[str]:
        seen: list[str] = []
        closing: asyncio.Task[None] | None = None
        consumer = aio.SimpleConsumer(group, brokers=gateway.url, topic=topic)
        async for message in consumer:
            seen.append(message.text())
            await consumer.ack(message)
            if message.text() == "first":
                await asyncio.to_thread(put, gateway.url, topic, ["second"])
            else:
                closing = asyncio.create_task(consumer.close())
        assert closing is not None
        await closing
        return seen

    assert asyncio.run(run()) == ["first", "second"]


def test_iteration_leaves_out_what_is_no_longer_its_own(brisk: GatewayProcess, topic: str, group: str) -> None:
    put(brisk.url, topic, ["a", "b"])
    with SimpleConsumer(group, brokers=brisk.url, topic=topic, invisible=timedelta(milliseconds=200)) as consumer:
        messages = consumer.messages(max_messages=2)
        first = next(messages)
        time.sleep(0.3)
        while True:  # on a slow machine the other one may come twice before
            again = next(messages)
            assert again.reconsume_times > 0
            if again.text() == first.text():
                return


def test_iteration_needs_a_topic_and_raises_what_does_not_pass(gateway: GatewayProcess, topic: str, group: str) -> None:
    with SimpleConsumer(group, brokers=gateway.url) as consumer:
        with pytest.raises(InvalidRequest, match="which topic"):
            next(iter(consumer))
        with pytest.raises(TopicNotFound):
            next(consumer.messages(topic))
    with SimpleConsumer(group, brokers="http://127.0.0.1:1") as consumer, pytest.raises(Unreachable):
        next(consumer.messages(topic))


def test_a_nack_takes_a_delay(brisk: GatewayProcess, topic: str, group: str) -> None:
    put(brisk.url, topic, ["m"])
    with SimpleConsumer(group, brokers=brisk.url) as consumer:
        [message] = consumer.receive(topic)
        with pytest.raises(InvalidRequest, match="not both"):
            consumer.nack(message, 3, delay=timedelta(seconds=1))
        with pytest.raises(InvalidRequest, match="0 to 7,200 s"):
            consumer.nack(message, delay=timedelta(hours=3))
        consumer.nack(message, delay=timedelta(seconds=7))
        [again] = consumer.receive(topic, wait_s=60)
        consumer.ack(again)


def test_what_cannot_be_is_refused(gateway: GatewayProcess, topic: str, group: str) -> None:
    put(gateway.url, topic, ["m"])
    with SimpleConsumer(group, brokers=gateway.url) as consumer:
        with pytest.raises(TopicNotFound):
            consumer.receive("nowhere")
        with pytest.raises(InvalidTopic):
            consumer.receive("no topic!")
        with pytest.raises(InvalidRequest, match="invisible_s"):
            consumer.receive(topic, invisible_s=0)
        with pytest.raises(InvalidRequest, match="invisible_s"):
            consumer.change_invisible(consumer.receive(topic)[0], -1)
        with PullConsumer(group, brokers=gateway.url, consume_from="first") as pulling:
            pulling.assign(pulling.queues_of(topic))
            with pytest.raises(InvalidRequest, match="no receipt"):
                consumer.ack(pulling.poll()[0])
    with pytest.raises(Closed):
        consumer.receive(topic)


def test_what_was_deleted_with_its_topic_has_a_status_and_an_error_of_its_own() -> None:
    status = AckStatus("message_not_found")
    assert (status, status.counts) == (AckStatus.MESSAGE_NOT_FOUND, False)
    with pytest.raises(MessageNotFound, match="id-1"):
        status.check("id-1")
