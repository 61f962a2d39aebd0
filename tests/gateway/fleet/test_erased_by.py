"""Whom an erasure is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from lakemq.gateway.fleet.erased_by import HEARD_MAX, ErasedBy
from lakemq.model.errors import NotConfirmed
from lakemq.model.in_sync import Member
from tests.gateway.http_client import WAIT_S

A, B = Member(1, "a"), Member(2, "b")
LATER_MS = 1_000_000


def is_over(silent_ms: int, members: set[Member], says: Callable[[ErasedBy], object]) -> bool:
    """Whether an erasure is over once that was said; it isn't before."""

    async def scene() -> bool:
        erased_by = ErasedBy(silent_ms, lambda: members)
        for each in (A, B):
            erased_by.hear(each, 0)
        waiting = asyncio.ensure_future(erased_by.until(1, WAIT_S))
        await asyncio.sleep(0)
        assert not waiting.done()
        assert erased_by.wants_news(0)
        says(erased_by)
        await asyncio.wait([waiting], timeout=0.1)
        over = waiting.done()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert (erased_by.answered, erased_by.wants_news(0)) == (int(over), False)
        return over

    return asyncio.run(scene())


def test_all_in_sync_are_waited_for() -> None:
    assert not is_over(LATER_MS, {A, B}, lambda erased_by: erased_by.hear(A, 1))
    assert is_over(LATER_MS, {A, B}, lambda erased_by: [erased_by.hear(each, 1) for each in (A, B)])


def test_who_is_let_go_meanwhile_and_silent_is_not_waited_for() -> None:
    members = {A}
    assert is_over(0, members, lambda _: members.clear())


def test_who_said_that_it_stops_is_waited_for_only_while_it_is_in_sync_or_once_it_is_heard_again() -> None:
    members = {A, B}

    def says(*steps: Callable[[ErasedBy], object]) -> Callable[[ErasedBy], object]:
        return lambda erased_by: [step(erased_by) for step in (lambda each: each.hear(A, 1), *steps)]

    def let_go(_: ErasedBy) -> None:
        members.discard(B)

    assert not is_over(LATER_MS, members, says(lambda erased_by: erased_by.leave(B)))
    assert not is_over(LATER_MS, members, says(let_go))
    members.add(B)
    assert is_over(LATER_MS, members, says(lambda erased_by: erased_by.leave(B), let_go))
    members.add(B)
    returns = says(lambda erased_by: erased_by.leave(B), lambda erased_by: erased_by.hear(B, 0), let_go)
    assert not is_over(LATER_MS, members, returns)


def test_who_follows_and_is_not_in_sync_is_only_told() -> None:
    def done_and(told: Member | None) -> Callable[[ErasedBy], object]:
        return lambda erased_by: (erased_by.hear(A, 1), told and erased_by.to_be_done(told))

    assert not is_over(LATER_MS, {A}, done_and(None))
    assert not is_over(LATER_MS, {A}, done_and(A))
    assert is_over(LATER_MS, {A}, done_and(B))


def test_who_is_in_sync_shows_messages_meanwhile_and_others_do_not() -> None:
    async def scene() -> None:
        erased_by = ErasedBy(LATER_MS, lambda: {A})
        erased_by.begin(3)
        erased_by.hear(A, 3)
        waiting = asyncio.ensure_future(erased_by.until(4, WAIT_S))
        await asyncio.sleep(0)
        assert [erased_by.to_be_done(each) for each in (A, B, None)] == [3, 4, 4]
        erased_by.hear(A, 4)
        await waiting
        assert erased_by.to_be_done(A) == 4

    asyncio.run(scene())


def test_one_that_does_not_carry_it_out_in_time_is_named() -> None:
    async def scene() -> None:
        with pytest.raises(NotConfirmed, match="replica 1,"):
            await ErasedBy(0, lambda: {A}).until(1, 0)

    asyncio.run(scene())


def test_lives_of_replicas_that_come_and_go_are_forgotten() -> None:
    async def scene(silent_ms: int) -> int:
        erased_by = ErasedBy(silent_ms, lambda: {A, B})
        for each in (A, B):
            erased_by.hear(each, 1)
        for life in range(HEARD_MAX + 10):
            erased_by.hear(Member(3, str(life)), 0)
        assert erased_by.wants_news(0) is False
        waiting = asyncio.ensure_future(erased_by.until(1, WAIT_S))
        await asyncio.wait([waiting], timeout=0.1 if silent_ms else WAIT_S)
        assert waiting.done() == (silent_ms == 0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return erased_by.remembered

    assert asyncio.run(scene(LATER_MS)) == 2 + HEARD_MAX
    assert asyncio.run(scene(0)) < HEARD_MAX
