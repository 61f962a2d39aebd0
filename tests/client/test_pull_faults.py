"""Pull consumers whose calls are interrupted, and whose brokers answer with errors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from lakemq.client import aio
from lakemq.model.errors import LakeUnreadable
from lakemq.testing import MemoryBroker
from tests.client.between import Asked, between
from tests.client.consuming import make_topic, put, view


@pytest.fixture(scope="module")
def broker() -> Iterator[MemoryBroker]:
    with MemoryBroker() as made:
        yield made


async def poll(consumer: aio.PullConsumer, count: int) -> list[str]:
    """Poll until so many have come."""
    texts: list[str] = []
    while len(texts) < count:
        texts += [message.text() for message in await consumer.poll(wait_s=0.2)]
    return texts


def is_commit(asked: Asked) -> bool:
    return asked.method == "PUT" and asked.path.endswith("/offsets")


def is_pull(asked: Asked) -> bool:
    return asked.method == "GET" and asked.path.endswith("/messages")


def test_a_close_that_is_cancelled_goes_on_and_leaves(broker: MemoryBroker, topic: str, group: str) -> None:
    """Without that it stayed in its group, and held queues that it no longer read."""
    put(broker.url, topic, ["one"])

    async def run() -> None:
        async with between(broker.url) as proxy:
            consumer = aio.PullConsumer(group, brokers=proxy.url, consume_from="first")
            await consumer.subscribe(topic)
            await poll(consumer, 1)
            proxy.hold(is_commit)
            closing = asyncio.create_task(consumer.close())
            await proxy.held.wait()
            closing.cancel()
            await asyncio.gather(closing, return_exceptions=True)
            assert closing.cancelled()
            proxy.release()
            await consumer.close()

    asyncio.run(run())
    assert view(broker.url, group)["members"] == []


def test_a_subscribed_consumer_raises_what_keeps_a_queue_from_being_read(
    broker: MemoryBroker, topic: str, group: str
) -> None:
    make_topic(broker.url, topic, 1)

    async def run() -> None:
        async with (
            between(broker.url) as proxy,
            aio.PullConsumer(group, brokers=proxy.url, consume_from="first") as consumer,
        ):
            await consumer.subscribe(topic)
            proxy.answer(is_pull, 503, LakeUnreadable.code)
            with pytest.raises(LakeUnreadable, match="said by a test"):
                await poll(consumer, 1)
            # A queue that is gone is no error: its topic was deleted, or made anew, and its queues are looked up again.
            proxy.answer(is_pull, 404, "topic_not_found")
            heard = len(proxy.heard)
            while not any(map(is_pull, proxy.heard[heard:])):
                await consumer.poll(wait_s=0.2)
            proxy.pass_on()
            await asyncio.to_thread(put, broker.url, topic, ["one"])
            assert await poll(consumer, 1) == ["one"]

    asyncio.run(run())
