"""What goes on only while it is renewed, without a gateway around it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from lakemq.gateway.groups.notices import PAUSE_S_A_WAITER, Notices
from lakemq.gateway.groups.renewals import Renewals
from lakemq.model.errors import StoreUnwritable

EXPIRY_MS = 50


class StillLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock stands still until a test moves it."""

    now_s = 0.0

    def time(self) -> float:
        return self.now_s


def run(test: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=StillLoop) as runner:
        runner.run(test)


async def pass_ms(ms: float) -> None:
    """Move the clock, and let happen what is due then."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, StillLoop)
    loop.now_s += ms / 1000
    for _ in range(10):
        await asyncio.sleep(0)


def test_what_is_not_renewed_expires_in_its_turn() -> None:
    async def test() -> None:
        told: list[str] = []

        async def on_expired(keys: list[str]) -> None:
            told.extend(keys)

        renewals = Renewals[str](EXPIRY_MS, on_expired)
        renewals.start()
        await pass_ms(0)
        for key in ("a", "b", "c"):
            renewals.renew(key)
        renewals.discard("b")
        await pass_ms(EXPIRY_MS / 2)
        renewals.renew("a")
        await pass_ms(EXPIRY_MS / 2 - 1)
        assert told == []
        await pass_ms(2)
        assert told == ["c"]
        await pass_ms(EXPIRY_MS / 2)
        assert told == ["c", "a"]
        assert (len(renewals), renewals.age_ms("a"), renewals.goes_on("a")) == (0, None, False)
        await renewals.close()

    run(test())


def test_what_can_not_be_told_goes_on_a_while() -> None:
    async def test() -> None:
        asked: list[str] = []

        async def on_expired(keys: list[str]) -> None:
            asked.extend(keys)
            raise StoreUnwritable("full")

        renewals = Renewals[str](EXPIRY_MS, on_expired)
        renewals.renew("a")
        renewals.start()
        await pass_ms(0)
        await pass_ms(EXPIRY_MS)
        assert asked == ["a"]
        assert len(renewals) == 1
        renewals.renew("a")
        assert renewals.goes_on("a")
        await renewals.close()

    run(test())


def test_while_the_process_stands_still_nothing_expires() -> None:
    async def test() -> None:
        told: list[str] = []

        async def on_expired(keys: list[str]) -> None:
            told.extend(keys)

        renewals = Renewals[str](1_000, on_expired, late_s=0.01)
        renewals.renew("a")
        renewals.start()
        await pass_ms(0)
        await pass_ms(1_300)  # at once: nobody could be heard meanwhile
        assert renewals.goes_on("a")
        assert told == []
        await renewals.close()

    run(test())


def test_what_moves_soon_after_a_notice_to_many_is_told_once_for_all() -> None:
    async def test() -> None:
        loop = asyncio.get_running_loop()
        notices = Notices()
        first = [loop.create_future() for _ in range(100)]
        for waiter in first:
            notices.add("g", waiter)
        notices.moved("h")
        notices.moved("g")
        assert all(waiter.done() for waiter in first)
        second: asyncio.Future[None] = loop.create_future()
        notices.add("g", second)
        assert not notices.is_due("g")
        notices.moved("g")
        notices.moved("g")
        assert notices.is_due("g")
        pause_ms = PAUSE_S_A_WAITER * len(first) * 1000
        await pass_ms(pause_ms - 1)
        assert not second.done()
        await pass_ms(2)
        assert second.done()
        assert not notices.is_due("g")
        third: asyncio.Future[None] = loop.create_future()
        notices.add("g", third)
        notices.discard("g", third)
        notices.discard("g", third)
        notices.close()

    run(test())
