"""The time of those who wait is over at one timer for all of whom it is at about the same time."""

from __future__ import annotations

import asyncio

import pytest

from lakemq.gateway.work.deadlines import LATE_S_MAX, LATE_S_MIN, Deadlines
from tests.gateway.http_client import WAIT_S


@pytest.mark.parametrize("seconds", [-1, 0, 1e-9, 0.0005, 0.01, 0.1])
def test_a_wait_ends_when_its_time_is_over_and_no_earlier(seconds: float) -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        end_s, deadlines = loop.time() + seconds, Deadlines()
        deadlines.add(future, seconds)
        async with asyncio.timeout(WAIT_S):
            await future
        assert loop.time() >= end_s - 0.001  # the loop's own clock tick
        assert not len(deadlines)

    asyncio.run(scene())


def test_waits_that_are_about_as_long_share_timers() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        deadlines, futures = Deadlines(), [loop.create_future() for _ in range(1000)]
        for number, future in enumerate(futures):
            deadlines.add(future, 20 + number / 1000)
        assert len(deadlines) <= 2 + (1 + 1) / LATE_S_MAX
        assert not any(future.done() for future in futures)

    asyncio.run(scene())


def test_who_is_taken_out_is_not_told() -> None:
    async def scene() -> None:
        loop = asyncio.get_running_loop()
        deadlines, left, other = Deadlines(), loop.create_future(), loop.create_future()
        deadlines.add(left, LATE_S_MIN).discard(left)
        deadlines.add(other, LATE_S_MIN * 20)
        async with asyncio.timeout(WAIT_S):
            await other
        assert not left.done()

    asyncio.run(scene())
