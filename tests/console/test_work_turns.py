"""Pieces of work that the console does at a time."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from lakemq.console.work_turns import WorkTurns
from lakemq.model.errors import Busy


def test_one_user_leaves_room_for_others_and_all_together_have_an_end() -> None:
    asyncio.run(_check())


async def _check() -> None:
    turns = WorkTurns(3, 2, "exports")
    async with AsyncExitStack() as held:
        for user in ("ann", "ann", "bob"):
            if user == "bob":
                with pytest.raises(Busy, match="2 exports are running for this user"):
                    turns.turn("ann")
            await held.enter_async_context(turns.turn(user))
        with pytest.raises(Busy, match="3 exports are running already"):
            turns.turn("eve")
    async with turns.turn("ann"), turns.turn("ann"):
        pass


def test_what_one_user_asks_for_at_once_takes_no_place_of_others() -> None:
    asyncio.run(_check_at_once())


async def _check_at_once() -> None:
    turns = WorkTurns(3, 1, "exports")
    asked = [turns.turn("ann") for _ in range(4)]
    over, entered = asyncio.Event(), 0

    async def write(turn: int) -> None:
        nonlocal entered
        async with asked[turn]:
            entered += 1
            await over.wait()

    tasks = [asyncio.create_task(write(each)) for each in range(4)]
    await asyncio.sleep(0)
    assert entered == 1
    async with turns.turn("bob"), turns.turn("eve"):
        over.set()
    await asyncio.gather(*tasks)
    assert entered == 4
