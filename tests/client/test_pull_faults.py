"""Pull consumers whose calls are interrupted, and whose brokers answer with errors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from lakemq.client import aio
from lakemq.testing import MemoryBroker
from tests.client.between import Asked, between
from tests.client.consuming import put, view


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
