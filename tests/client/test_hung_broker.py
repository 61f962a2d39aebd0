"""A broker that takes requests and answers none holds up nothing at the others."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from lakemq.client import MessageQueue
from lakemq.client.consume.group_api import GroupApi
from lakemq.client.consume.locks import Locks
from lakemq.client.routes import Cluster
from lakemq.testing import MemoryBroker
from tests.client.between import Asked, between
from tests.client.consuming import make_topic

SOON_S = 20.0
"""The longest wait for what a hung broker doesn't hold up: its own request is given up after 30 s."""


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[str, str]]:
    with MemoryBroker(broker__name="a") as a, MemoryBroker(broker__name="b") as b:
        yield a.url, b.url


def test_locks_of_others_are_taken_while_a_broker_hangs(brokers: tuple[str, str], topic: str, group: str) -> None:
    well, hung = brokers
    for url in brokers:
        make_topic(url, topic, 2)

    def is_lock(asked: Asked) -> bool:
        return asked.method == "POST" and asked.path.endswith("/locks")

    async def take() -> None:
        async with between(hung) as proxy:
            cluster = Cluster([well, proxy.url])
            locks = Locks(GroupApi(cluster, group, "c"), lambda queue: None)
            await cluster.brokers()
            proxy.hold(is_lock)
            waiting = asyncio.create_task(locks.acquire(MessageQueue(topic, "b", 0)))
            await proxy.held.wait()
            async with asyncio.timeout(SOON_S):
                await locks.acquire(MessageQueue(topic, "a", 0))
            proxy.release()
            await waiting
            await locks.release([MessageQueue(topic, each, 0) for each in "ab"])
            await locks.close()
            await cluster.close()

    asyncio.run(take())
