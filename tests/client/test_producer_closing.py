"""A producer that is closed while something is under way, is interrupted as it closes, or is closed by a handler."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from lakemq.client import Producer, aio, held
from lakemq.client.errors import Closed, SendFailed
from lakemq.client.prober import Prober
from lakemq.client.produce.batch import until_ended
from lakemq.client.routes import Cluster
from tests.client.producing import DEAD

WAIT_S = 60.0


def test_a_second_close_tells_what_an_interrupted_one_could_not() -> None:
    async def close_twice() -> list[bytes]:
        producer = aio.Producer(DEAD, timeout_s=2, attempt_timeout_s=1)
        sent = await producer.send_async("t", b"accepted")
        closing = asyncio.create_task(producer.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.gather(closing, return_exceptions=True)
        assert closing.cancelled()
        async with asyncio.timeout(WAIT_S):
            await until_ended(sent._batch)  # pyright: ignore[reportPrivateUsage]  who awaits `sent` is told
        with pytest.raises(SendFailed) as failed:
            await producer.close()
        await producer.close()  # it is told once
        return [message.body for message, _ in failed.value.failures]

    assert asyncio.run(close_twice()) == [b"accepted"]


def test_who_waits_for_room_hears_of_a_close() -> None:
    async def close() -> None:
        producer = aio.Producer(DEAD, timeout_s=300, batch_bytes=1_000, buffer_bytes=1_000)
        await producer.send_async("t", b"x" * 2_000)
        waiting = asyncio.ensure_future(producer.send_async("t", b"y"))
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(producer.close())
        async with asyncio.timeout(WAIT_S):
            with pytest.raises(Closed):
                await waiting
        closing.cancel()
        with pytest.raises(SendFailed):
            await producer.close(0.1)

    asyncio.run(close())


def test_nobody_looks_for_a_broker_once_the_producer_is_closed() -> None:
    """A batch that failed after the close had its broker looked for, for ever."""

    async def fail() -> None:
        prober = Prober(Cluster([DEAD]), lambda broker: None)
        await prober.close()
        prober.failed("away")
        prober.is_late("late")
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(fail())


@pytest.mark.parametrize("call", [Producer.close, Producer.flush])
def test_a_handler_that_interrupts_a_send_is_told_so_and_does_not_hang(call: Callable[[Producer], None]) -> None:
    """What it waits for needs a lock that the interrupted code beneath it has."""
    producer = Producer(DEAD, timeout_s=WAIT_S, attempt_timeout_s=1)
    sent, raised = producer.send_async("t", b"accepted"), list[str]()

    def interrupted() -> None:
        with producer._core.lock:  # pyright: ignore[reportPrivateUsage]  as `send_async` has it at times
            try:
                call(producer)
            except RuntimeError as error:
                raised.append(str(error))

    thread = threading.Thread(target=interrupted, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    assert raised == [held.INTERRUPTED]
    assert not sent.done()
    with pytest.raises(SendFailed):
        producer.close(0.1)
