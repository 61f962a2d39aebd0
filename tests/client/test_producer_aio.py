"""The asyncio producer against a real gateway."""

from __future__ import annotations

import asyncio

import pytest

from lakemq.client import Closed, Message, SendFailed, aio
from lakemq.model.errors import InvalidTopic
from lakemq.testing import GatewayProcess
from tests.client.producing import DEAD, bodies


def test_many_are_stored_once_each(gateway: GatewayProcess, topic: str) -> None:
    async def send() -> list[aio.SendReceipt]:
        async with aio.Producer(gateway.url) as producer:
            futures = [await producer.send_async(topic, f"{number}") for number in range(2_000)]
            assert not futures[-1].done()
            return [await future for future in futures]

    receipts = asyncio.run(send())
    assert sorted(bodies(gateway.url, topic), key=int) == [b"%d" % number for number in range(2_000)]
    assert len({receipt.message_id for receipt in receipts}) == 2_000


def test_all_ways_of_sending(gateway: GatewayProcess, topic: str) -> None:
    async def send() -> None:
        async with aio.Producer(gateway.url) as producer:
            receipt = await producer.send(topic, "a", tag="t", ordering_key="k")
            (second,) = await producer.send_batch(topic, [Message(body="b", ordering_key="k")])
            assert (second.queue_id, second.queue_offset) == (receipt.queue_id, receipt.queue_offset + 1)
            await producer.send_oneway(topic, "c")
            later = await producer.send_async(topic, Message(body="d", ordering_key="k"))
            await producer.flush()
            assert later.done()
            assert (await later).queue_offset == receipt.queue_offset + 2
            assert await later == await later
            with pytest.raises(InvalidTopic):
                await producer.send("no topic", "x")

    asyncio.run(send())
    assert sorted(bodies(gateway.url, topic)) == [b"a", b"b", b"c", b"d"]


def test_many_tasks_share_a_producer(gateway: GatewayProcess, topic: str) -> None:
    async def send() -> None:
        async with aio.Producer(gateway.url) as producer:
            await asyncio.gather(*(producer.send(topic, f"{number}") for number in range(300)))

    asyncio.run(send())
    assert len(set(bodies(gateway.url, topic))) == 300


def test_who_stops_waiting_stops_nobody_else(gateway: GatewayProcess, topic: str) -> None:
    async def send() -> None:
        async with aio.Producer(gateway.url) as producer:
            future = await producer.send_async(topic, "x")
            impatient = asyncio.ensure_future(future)
            await asyncio.sleep(0)
            impatient.cancel()
            assert (await future).queue_offset == 0

    asyncio.run(send())


def test_close_says_what_it_could_not_send() -> None:
    async def send() -> None:
        producer = aio.Producer(DEAD, timeout_s=0.2, attempt_timeout_s=0.2)
        await producer.send_async("orders", "x")
        with pytest.raises(SendFailed, match="1 messages"):
            await producer.close()
        with pytest.raises(Closed):
            await producer.send_async("orders", "x")

    asyncio.run(send())


def test_sending_waits_for_room() -> None:
    async def send() -> None:
        # An attempt is refused at once; how long it might take is how much longer a message waits for room.
        producer = aio.Producer(DEAD, timeout_s=3, attempt_timeout_s=3, batch_bytes=5_000, buffer_bytes=20_000)
        futures = [await producer.send_async("orders", b"x" * 1000) for _ in range(30)]
        assert sum(not future.done() for future in futures) <= 21
        with pytest.raises(SendFailed):
            await producer.close()

    asyncio.run(send())
