"""What is due is done on its millisecond, whatever was known before, and what fails is done again."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from lakemq.gateway.effects import due_loop
from lakemq.gateway.effects.due_loop import RETRY_MS, DueLoop
from lakemq.model.errors import StoreUnwritable
from lakemq.storage.state.dues import Dues
from lakemq.testing import ManualClock

FAR_MS = 3_600_000


class Work:
    """Notes what is done when, by a clock that stands still; `failing` is raised once."""

    def __init__(self) -> None:
        self.dues = Dues()
        self.clock = ManualClock(0)
        self.failing: Exception | None = None
        self.done: list[tuple[int, list[int]]] = []
        self.back: list[tuple[int, list[int]]] = []

    def now_ms(self) -> int:
        return self.clock.now_ms()

    async def do(self, positions: list[int]) -> None:
        failing, self.failing = self.failing, None
        if failing is not None:
            raise failing
        self.done.append((self.clock.time_ms, positions))

    def put_back(self, positions: list[int], due_ms: int) -> None:
        self.back.append((due_ms, positions))
        self.dues.add(due_ms, positions)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def run(test: Coroutine[object, object, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


def test_what_comes_to_be_due_earlier_wakes_it() -> None:
    async def test() -> None:
        work, sleeps = Work(), due_loop.SLEEP_S_MAX
        due_loop.SLEEP_S_MAX = 1_000.0  # only a wake-up ends a sleep here
        try:
            loop = DueLoop(work, "were not done")
            work.dues.add(FAR_MS, [1])
            loop.start()
            await settle()
            assert work.done == []
            work.dues.add(0, [2, 3])
            await settle()
            assert work.done == [], "nobody has said so"
            loop.look_again()
            await settle()
            assert work.done == [(0, [2, 3])]
            work.clock.time_ms = FAR_MS
            loop.look_again()
            await settle()
            assert work.done[1:] == [(FAR_MS, [1])]
            await loop.close()
        finally:
            due_loop.SLEEP_S_MAX = sleeps

    run(test())


def test_what_fails_is_put_back_and_the_loop_goes_on() -> None:
    async def test() -> None:
        work = Work()
        loop = DueLoop(work, "were not done")
        loop.start()
        for failing in (StoreUnwritable("full"), ValueError("a bug")):
            work.failing, work.back = failing, []
            work.dues.add(work.clock.time_ms, [7])
            loop.look_again()
            await settle()
            assert work.back == [(work.clock.time_ms + RETRY_MS, [7])]
            work.clock.time_ms += RETRY_MS
            loop.look_again()
            await settle()
            assert work.done[-1] == (work.clock.time_ms, [7])
        await loop.close()

    run(test())


def test_one_that_never_began_can_be_closed() -> None:
    run(DueLoop(Work(), "were not done").close())
