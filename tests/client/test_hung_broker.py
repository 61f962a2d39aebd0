"""A broker that takes requests and answers none holds up nothing at the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from lakemq.client import AckStatus, MessageView, aio
from lakemq.client.aio import pull_consumer
from lakemq.client.consume import membership
from lakemq.client.consume.group_api import GroupApi
from lakemq.client.consume.locks import Locks
from lakemq.client.consume.membership import Membership
from lakemq.client.http import HttpClient
from lakemq.client.routes import Cluster
from lakemq.model.message_queue import MessageQueue
from lakemq.testing import MemoryBroker
from tests.client.between import Asked, between
from tests.client.consuming import make_topic, offsets, put

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


def test_messages_of_others_are_received_while_a_broker_hangs(brokers: tuple[str, str], topic: str, group: str) -> None:
    well, hung = brokers
    for url in brokers:
        make_topic(url, topic, 1)

    def is_receive(asked: Asked) -> bool:
        return asked.method == "POST" and asked.path.endswith("/receive")

    async def receive(consumer: aio.SimpleConsumer) -> list[str]:
        while not (found := await consumer.receive(topic, wait_s=1)):
            pass
        await consumer.ack(found)
        assert {message.reconsume_times for message in found} == {0}
        return [message.text() for message in found]

    async def run() -> None:
        async with between(hung) as proxy, aio.SimpleConsumer(group, brokers=[well, proxy.url]) as consumer:
            await consumer.receive(topic, wait_s=0)
            proxy.hold(is_receive)
            receiving = asyncio.create_task(receive(consumer))
            await proxy.held.wait()
            await asyncio.to_thread(put, well, topic, ["one"])
            async with asyncio.timeout(SOON_S):
                assert await receiving == ["one"]
            await asyncio.to_thread(put, hung, topic, ["two"])
            proxy.release()
            assert await receive(consumer) == ["two"], "what it answers by then is nobody else's, and was never tried"
            await asyncio.to_thread(put, hung, topic, ["three"])
            assert await receive(consumer) == ["three"], "it is asked again once it is well"

    asyncio.run(run())


@pytest.mark.parametrize("call", ["ack", "nack"])
def test_what_others_handed_out_is_settled_while_a_broker_hangs(
    brokers: tuple[str, str], topic: str, group: str, call: str
) -> None:
    """Brokers were told one after the other, and none after one that didn't answer."""
    well, hung = brokers
    for url in brokers:
        make_topic(url, topic, 1)
        put(url, topic, [f"at {url}"])

    async def run() -> None:
        async with (
            between(well) as other,
            between(hung) as proxy,
            aio.SimpleConsumer(group, brokers=[other.url, proxy.url]) as consumer,
        ):
            found: list[MessageView] = []
            while len(found) < 2:
                found += await consumer.receive(topic, wait_s=1, invisible_s=600)
            found.sort(key=lambda message: message.broker, reverse=True)
            for each in (proxy, other):
                each.hold(lambda asked: asked.path.endswith(f"/{call}s"))
            settling = asyncio.create_task(getattr(consumer, call)(found))
            async with asyncio.timeout(SOON_S):
                await proxy.held.wait()
                await other.held.wait()
            for each in (proxy, other):
                each.release()
            assert await settling == [AckStatus.OK] * 2

    asyncio.run(run())


def test_polls_return_and_commit_what_others_have_while_a_broker_hangs(
    brokers: tuple[str, str], topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pull_consumer, "COMMIT_S", 0.0)
    well, hung = brokers
    for url in brokers:
        make_topic(url, topic, 1)
        put(url, topic, ["first"])

    def is_commit(asked: Asked) -> bool:
        return asked.method == "PUT" and asked.path.endswith("/offsets")

    async def poll(consumer: aio.PullConsumer, count: int) -> list[str]:
        texts: list[str] = []
        while len(texts) < count:
            texts += [message.text() for message in await consumer.poll(wait_s=0.2)]
        return texts

    async def run() -> None:
        async with (
            between(hung) as proxy,
            aio.PullConsumer(group, brokers=[well, proxy.url], consume_from="first") as consumer,
        ):
            await consumer.subscribe(topic)
            assert await poll(consumer, 2) == ["first", "first"]
            proxy.hold(is_commit)
            while not proxy.held.is_set():
                await consumer.poll(wait_s=0.1)
            await asyncio.to_thread(put, well, topic, ["second"])
            async with asyncio.timeout(SOON_S):
                assert await poll(consumer, 1) == ["second"]
                while await asyncio.to_thread(offsets, well, group, topic) != {0: 2}:
                    await consumer.poll(wait_s=0.1)
            proxy.release()
        assert await asyncio.to_thread(offsets, hung, group, topic) == {0: 1}

    asyncio.run(run())


def test_a_consumer_is_closed_soon_and_has_left_the_others_while_a_broker_hangs(
    brokers: tuple[str, str], topic: str, group: str
) -> None:
    """It waited for the commit at that broker before it left any."""
    well, hung = brokers
    for url in brokers:
        make_topic(url, topic, 1)
        put(url, topic, ["one"])

    async def run() -> None:
        async with between(hung) as proxy:
            consumer = aio.PullConsumer(group, brokers=[well, proxy.url], consume_from="first")
            await consumer.subscribe(topic)
            got = 0
            while got < 2:
                got += len(await consumer.poll(wait_s=0.2))
            proxy.hold(lambda asked: True)
            async with asyncio.timeout(SOON_S):
                await consumer.close()
        assert await asyncio.to_thread(offsets, well, group, topic) == {0: 1}
        with HttpClient(well) as http:
            assert http.group(group)["members"] == []

    asyncio.run(run())


def test_a_member_joins_and_its_heartbeats_go_on_at_the_others_while_a_broker_hangs(
    brokers: tuple[str, str], group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All waited for its answer, and the member expired where that takes less."""
    monkeypatch.setattr(membership, "HEARTBEAT_S", 0.1)
    monkeypatch.setattr(membership, "LATE_S", 0.1)
    well, hung = brokers
    joined, changed = dict[str, int](), asyncio.Event()

    def describe(broker: str) -> Mapping[str, Any]:
        joined[broker] = joined.get(broker, 0) + 1
        changed.set()
        return {}

    async def until(done: Callable[[], bool]) -> None:
        while not done():
            changed.clear()
            await changed.wait()

    async def run() -> None:
        async with between(hung) as proxy:
            cluster = Cluster([well, proxy.url])
            await cluster.brokers()
            member = Membership(GroupApi(cluster, group, "c"), describe, lambda: None)
            proxy.hold(lambda asked: True)
            async with asyncio.timeout(SOON_S):
                await member.start()
                assert not member.is_sure("b")
                await until(lambda: joined["a"] >= 5)
            assert joined["b"] == 1, "one heartbeat after the other"
            proxy.release()
            await until(lambda: member.is_sure("b"))
            await member.close()
            await cluster.close()

    asyncio.run(run())
