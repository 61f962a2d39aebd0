"""The time of those who wait is over at one timer for all of whom it is at about the same time."""

from __future__ import annotations

import asyncio
from typing import Any

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


class Noting(asyncio.SelectorEventLoop):
    """It notes when its timers are set for."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: list[float] = []

    def call_at(self, when: float, callback: Any, *arguments: Any, context: Any = None) -> asyncio.TimerHandle:
        self.timers.append(when)
        return super().call_at(when, callback, *arguments, context=context)


@pytest.mark.parametrize("seconds", [-60, -0.01, 0, 1e-9, 0.01, 0.5, 1, 3, 60])
def test_what_is_due_in_a_short_time_or_at_once_is_late_by_little(seconds: float) -> None:
    """A wait whose time was over already took as long as one of a second is late."""

    loop = Noting()

    async def scene() -> None:
        begun_s = loop.time()
        Deadlines().add(loop.create_future(), seconds)
        left_s = max(seconds, 0.0)
        late_s = min(max(left_s / 64, LATE_S_MIN), LATE_S_MAX)
        assert begun_s + left_s <= loop.timers[-1] + 1e-6
        assert loop.timers[-1] <= loop.time() + left_s + late_s + 1e-6

    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(scene())


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
