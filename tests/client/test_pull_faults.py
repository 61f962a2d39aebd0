"""Pull consumers whose calls are interrupted, and whose brokers answer with errors."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from lakemq.client import address_list, aio, replicas
from lakemq.model.errors import Busy, LakeUnreadable
from lakemq.testing import MemoryBroker
from tests.client.between import WAIT_S, Asked, between
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


def is_heartbeat(asked: Asked) -> bool:
    return asked.path.endswith("/heartbeat")


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


def test_a_first_poll_that_fails_or_is_cancelled_can_be_tried_again(
    broker: MemoryBroker, topic: str, group: str
) -> None:
    """Each closed the consumer."""
    put(broker.url, topic, ["one"])

    async def run() -> None:
        async with (
            between(broker.url) as proxy,
            aio.PullConsumer(group, brokers=proxy.url, consume_from="first") as consumer,
        ):
            await consumer.subscribe(topic)
            proxy.answer(is_heartbeat, 503, Busy.code)
            with pytest.raises(Busy):
                await consumer.poll(wait_s=0.1)
            proxy.pass_on()
            proxy.hold(is_heartbeat)
            polling = asyncio.create_task(consumer.poll(wait_s=0.1))
            await proxy.held.wait()
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)
            proxy.release()
            assert await poll(consumer, 1) == ["one"]

    asyncio.run(run())
    assert view(broker.url, group)["members"] == []


def test_a_program_that_starts_while_its_broker_is_slow_waits_for_it(
    broker: MemoryBroker, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy machine that stood still for a second as it started had it fail."""
    monkeypatch.setattr(replicas, "LOOK_TIMEOUT_S", 0.1)
    monkeypatch.setattr(address_list, "FIRST_TIMEOUT_S", WAIT_S)
    put(broker.url, topic, ["one"])

    def is_look(asked: Asked) -> bool:
        return asked == ("GET", "/v1/broker")

    async def run() -> None:
        async with (
            between(broker.url) as proxy,
            aio.PullConsumer(group, brokers=proxy.url, consume_from="first") as consumer,
        ):
            proxy.hold(is_look)
            subscribing = asyncio.create_task(consumer.subscribe(topic))
            while sum(map(is_look, proxy.heard)) < 2:
                await asyncio.wait([subscribing], timeout=0.01)
                assert not subscribing.done() or subscribing.result() is None
            proxy.release()
            await subscribing
            assert await poll(consumer, 1) == ["one"]

    asyncio.run(run())


def test_a_seek_that_is_cancelled_leaves_no_queue_unread(broker: MemoryBroker, topic: str, group: str) -> None:
    make_topic(broker.url, topic, 1)
    put(broker.url, topic, ["one"])

    async def run() -> None:
        async with aio.PullConsumer(group, brokers=broker.url, consume_from="first") as consumer:
            await consumer.assign(await consumer.queues_of(topic))
            assert await poll(consumer, 1) == ["one"]
            seeking = asyncio.create_task(consumer.seek(consumer.queues[0], 0))
            await asyncio.sleep(0)
            seeking.cancel()
            await asyncio.gather(seeking, return_exceptions=True)
            await asyncio.to_thread(put, broker.url, topic, ["two"])
            async with asyncio.timeout(WAIT_S):
                assert await poll(consumer, 2) == ["one", "two"]

    asyncio.run(run())


def test_a_queue_stays_paused_when_its_offsets_are_reset(broker: MemoryBroker, topic: str, group: str) -> None:
    make_topic(broker.url, topic, 1)
    put(broker.url, topic, ["one"])

    async def run() -> None:
        async with aio.PullConsumer(group, brokers=broker.url, consume_from="first") as consumer:
            await consumer.subscribe(topic)
            assert await poll(consumer, 1) == ["one"]
            await consumer.pause(*consumer.queues)
            before = consumer._streams[consumer.queues[0]]  # pyright: ignore[reportPrivateUsage]
            async with aio.Admin(brokers=broker.url) as admin:
                await admin.reset_offsets(group, topic, "earliest")
            async with asyncio.timeout(WAIT_S):
                while list(consumer._streams.values()) in ([], [before]):  # pyright: ignore[reportPrivateUsage]
                    assert len(await consumer.poll(wait_s=0.1)) == 0
            queue = consumer.queues[0]
            assert await consumer.position(queue) == 0
            assert len(await consumer.poll(wait_s=0.5)) == 0
            await consumer.resume(queue)
            assert await poll(consumer, 1) == ["one"]

    asyncio.run(run())
