"""A program that uses the consumers, as a user's type checker sees it: all rules of pyright's strict mode.

The tests run it too.
"""
# pyright: strict

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime
from typing import assert_type

from lakemq.client import (
    AckStatus,
    Bounds,
    ConsumeLater,
    ConsumeResult,
    Limits,
    MessageBatch,
    MessageQueue,
    MessageView,
    PullConsumer,
    PushConsumer,
    PushOptions,
    SimpleConsumer,
    aio,
    by_machine_room,
)

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def push(brokers: str, topic: str, count: int) -> list[bytes]:
    """Take so many messages by a listener, retrying what fails."""
    bodies: list[bytes] = []
    done = threading.Event()

    def listener(message: MessageView) -> ConsumeResult | None:
        if assert_type(message.body, bytes) == b"later":
            return ConsumeResult.LATER
        if message.tag == "never":
            raise ConsumeLater(level=-1)
        bodies.append(message.body)
        if len(bodies) == count:
            done.set()
        return None

    options: PushOptions = {
        "brokers": brokers,
        "consume_from": LONG_AGO,
        "limits": Limits(messages=100),
        "strategy": by_machine_room(lambda broker: broker[:1], lambda member: member[:1]),
    }
    with PushConsumer(f"{topic}-push", listener, **options) as consumer:
        consumer.subscribe(topic, tags="*")
        assert_type(consumer.queues, list[MessageQueue])
        assert done.wait(30)
    return bodies


def push_batches(brokers: str, topic: str, count: int) -> int:
    """The same by a listener of batches, in order."""
    sizes: list[int] = []
    done = threading.Event()

    def listener(messages: list[MessageView]) -> None:
        sizes.append(len(messages))
        if sum(sizes) >= count:
            done.set()

    with PushConsumer(
        f"{topic}-batches", batch_listener=listener, brokers=brokers, consume_from="first", orderly=True
    ) as consumer:
        consumer.subscribe(topic)
        assert done.wait(30)
    return sum(sizes)


def pull(brokers: str, topic: str, count: int) -> list[bytes]:
    """Take so many messages by polls of all queues."""
    bodies: list[bytes] = []
    with PullConsumer(f"{topic}-pull", brokers=brokers, consume_from="first") as consumer:
        queues = consumer.queues_of(topic)
        consumer.assign(queues)
        consumer.seek_to_time(LONG_AGO, *queues)
        while len(bodies) < count:
            batch = assert_type(consumer.poll(max_messages=100, wait_s=0.5), MessageBatch)
            bodies += [message.body for message in batch]
        assert_type(consumer.bounds(queues[0]), Bounds)
        assert_type(consumer.committed(queues[0]), int | None)
        consumer.commit()
    return bodies


def receive(brokers: str, topic: str) -> list[AckStatus]:
    """Receive some messages and acknowledge them."""
    with SimpleConsumer(f"{topic}-simple", brokers=brokers) as consumer:
        messages = assert_type(consumer.receive(topic, max_messages=10, invisible_s=60), list[MessageView])
        consumer.change_invisible(messages[0], 30)
        return assert_type(consumer.ack(messages), list[AckStatus])


async def push_with_asyncio(brokers: str, topic: str) -> MessageView:
    """Wait for one message."""
    first: asyncio.Future[MessageView] = asyncio.get_running_loop().create_future()

    async def listener(message: MessageView) -> None:
        if not first.done():
            first.set_result(message)

    async with aio.PushConsumer(f"{topic}-aio", listener, brokers=brokers, consume_from="first") as consumer:
        await consumer.subscribe(topic)
        return await asyncio.wait_for(first, 30)
