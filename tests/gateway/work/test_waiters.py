"""Who is held goes on when something comes, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from lakemq.gateway.work.waiters import Waiters
from lakemq.model.errors import Busy
from lakemq.web.gone import finish
from tests.gateway.http_client import WAIT_S

Future = asyncio.Future[None]


def wait(seconds: float, then: Callable[[Waiters, Future, Future], object]) -> bool:
    """One waits, then that happens; returns whether waiting has still a sense."""

    async def scene() -> bool:
        loop = asyncio.get_running_loop()
        waiters, arrival, gone = Waiters(1, 1), loop.create_future(), loop.create_future()
        waiting = asyncio.ensure_future(waiters.wait_within(arrival, seconds, gone, None))
        while not len(waiters):  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0)
        with pytest.raises(Busy):
            await waiters.wait(loop.create_future(), seconds, gone)
        then(waiters, arrival, gone)
        async with asyncio.timeout(WAIT_S):
            has_sense = await waiting
        assert arrival.done()
        assert len(waiters) == 0
        if not gone.done():
            assert "cb=" not in repr(gone), "whoever waits next would be woken for it too"
        return has_sense

    return asyncio.run(scene())


def test_what_comes_ends_the_wait() -> None:
    assert wait(3_600, lambda waiters, arrival, gone: finish(arrival))


def test_so_does_the_end_of_the_time() -> None:
    assert wait(0.01, lambda waiters, arrival, gone: None)


def test_so_does_the_client_when_it_goes() -> None:
    assert wait(3_600, lambda waiters, arrival, gone: finish(gone))


def test_so_does_the_end_of_the_broker_and_nobody_waits_from_then_on() -> None:
    assert not wait(3_600, lambda waiters, arrival, gone: waiters.stop())

    async def scene() -> None:
        waiters = Waiters(1, 1)
        waiters.stop()
        await waiters.wait(asyncio.get_running_loop().create_future(), 3_600)

    asyncio.run(scene())


def test_one_client_does_not_take_all_places() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        waiters, arrivals = Waiters(4, 0.5), [loop.create_future() for _ in range(5)]

        def hold(number: int, client: str, bounded: bool = True) -> asyncio.Task[None]:
            return asyncio.ensure_future(waiters.wait(arrivals[number], 3_600, None, client, bounded))

        waiting = [hold(0, "2001:db8::1"), hold(1, "2001:db8::2")]
        await asyncio.sleep(0)
        with pytest.raises(Busy, match=r"gateway\.client_share"):
            await waiters.wait(loop.create_future(), 3_600, None, "2001:db8::3")
        waiting += [hold(2, "10.0.0.1"), hold(3, "2001:db8::4", bounded=False)]
        await asyncio.sleep(0)
        with pytest.raises(Busy, match=r"gateway\.waiters_max"):
            await waiters.wait(loop.create_future(), 3_600, None, "10.0.0.2")
        for arrival in arrivals:
            finish(arrival)
        await asyncio.gather(*waiting)
        await waiters.wait(arrivals[4], 3_600, None, "2001:db8::3")

    asyncio.run(scene())


def test_all_of_it_at_once_is_one_end() -> None:
    def all_at_once(waiters: Waiters, arrival: Future, gone: Future) -> None:
        finish(arrival)
        finish(arrival)
        finish(gone)
        waiters.stop()

    assert not wait(3_600, all_at_once)
