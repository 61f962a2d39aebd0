"""Whom parts are offered to before they are committed, and how long that is waited for."""

from __future__ import annotations

import asyncio

import pytest

from lakemq.gateway.fleet import offered_parts
from lakemq.gateway.fleet.offered_parts import TOLD_MAX, OfferedParts
from lakemq.model.in_sync import Member

A, B = Member(1, "a"), Member(2, "b")
TOKENS = [str(number) for number in range(TOLD_MAX + 8)]


def test_all_in_sync_take_them_some_at_a_time() -> None:
    async def scene() -> None:
        members = {A, B}
        offered = OfferedParts(lambda: members)
        offering = asyncio.ensure_future(offered.offer(TOKENS, 2**40))
        await asyncio.sleep(0)
        assert offered.to_take(1) == TOKENS[:TOLD_MAX]
        assert offered.to_take(3) == []
        for token in TOKENS:
            offered.taken(token, 1)
        assert (offered.to_take(1), offered.to_take(2)) == ([], TOKENS[:TOLD_MAX])
        await asyncio.sleep(0.05)
        assert not offering.done()
        members.remove(B)  # who is let go is not waited for
        await offering
        assert offered.to_take(2) == []

    asyncio.run(scene())


def test_nobody_is_waited_for_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offered_parts, "WAIT_S", 0.0)

    async def scene() -> None:
        offered = OfferedParts(lambda: {A})
        await offered.offer(TOKENS, 0)
        assert offered.to_take(1) == []

    asyncio.run(scene())


def test_a_lone_primary_waits_for_nobody() -> None:
    asyncio.run(OfferedParts(set).offer(TOKENS, 2**40))
