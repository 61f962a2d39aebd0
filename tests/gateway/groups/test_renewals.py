"""What goes on only while it is renewed, without a gateway around it."""

from __future__ import annotations

import asyncio
import time

from lakemq.gateway.groups.notices import Notices
from lakemq.gateway.groups.renewals import Renewals
from lakemq.model.errors import StoreUnwritable

EXPIRY_MS = 50


def test_what_is_not_renewed_expires_in_its_turn() -> None:
    async def run() -> list[str]:
        told: list[str] = []
        done = asyncio.Event()

        async def on_expired(keys: list[str]) -> None:
            told.extend(keys)
            if len(told) == 2:
                done.set()

        renewals = Renewals[str](EXPIRY_MS, on_expired)
        renewals.start()
        await asyncio.sleep(0)
        for key in ("a", "b", "c"):
            renewals.renew(key)
        renewals.discard("b")
        await asyncio.sleep(EXPIRY_MS / 2000)
        renewals.renew("a")
        await done.wait()
        await asyncio.sleep(0)
        assert (len(renewals), renewals.age_ms("a"), renewals.goes_on("a")) == (0, None, False)
        await renewals.close()
        return told

    assert asyncio.run(run()) == ["c", "a"]


def test_what_can_not_be_told_goes_on_a_while() -> None:
    async def run() -> None:
        asked = asyncio.Event()

        async def on_expired(_: list[str]) -> None:
            asked.set()
            raise StoreUnwritable("full")

        renewals = Renewals[str](EXPIRY_MS, on_expired)
        renewals.renew("a")
        renewals.start()
        await asked.wait()
        await asyncio.sleep(0)
        assert len(renewals) == 1
        renewals.renew("a")
        assert renewals.goes_on("a")
        await renewals.close()

    asyncio.run(run())


def test_while_the_process_stands_still_nothing_expires() -> None:
    async def run() -> None:
        told: list[str] = []

        async def on_expired(keys: list[str]) -> None:
            told.extend(keys)

        renewals = Renewals[str](1_000, on_expired, late_s=0.01)
        renewals.renew("a")
        renewals.start()
        await asyncio.sleep(0)
        time.sleep(1.3)  # noqa: ASYNC251  that is what standing still is
        for _ in range(3):
            await asyncio.sleep(0)
        assert renewals.goes_on("a")
        assert told == []
        await renewals.close()

    asyncio.run(run())


def test_what_moves_soon_after_a_notice_to_many_is_told_once_for_all() -> None:
    async def run() -> None:
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
        assert not second.done()
        await second
        assert not notices.is_due("g")
        third: asyncio.Future[None] = loop.create_future()
        notices.add("g", third)
        notices.discard("g", third)
        notices.discard("g", third)
        notices.close()

    asyncio.run(run())
