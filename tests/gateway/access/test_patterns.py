"""A pattern for topics' names keeps nobody waiting."""

from __future__ import annotations

import asyncio

import pytest

from lakemq.gateway.routes.subscription import MATCHED_AT_ONCE, matching
from lakemq.model.errors import InvalidRequest
from lakemq.web.gate import Gate

NAMES = [f"orders-of-the-region-{each:05d}-{'abcdefghijklmnopqrstuvwxyz' * 3}" for each in range(4 * MATCHED_AT_ONCE)]
SLOW = "|".join(f"(?i).*%{each}.{{120}}" for each in "abcdefghijklmnopqrstuvwxyz" * 2)
"""Of the kind that takes a millisecond for each name."""


def gate() -> Gate:
    return Gate(1, 100, 1)


def test_others_go_on_while_a_slow_pattern_is_matched() -> None:
    async def run() -> int:
        slow, turns = asyncio.ensure_future(matching(NAMES, SLOW, gate(), "a")), 0
        while not slow.done():
            await asyncio.sleep(0.001)
            turns += 1
        assert slow.result() == set()
        return turns

    assert asyncio.run(run()) > 10


def test_others_patterns_have_their_turn_in_between() -> None:
    async def run() -> None:
        one = gate()
        slow = asyncio.ensure_future(matching(NAMES, SLOW, one, "10.0.0.1"))
        await asyncio.sleep(0)  # it has the gate's only place
        assert await matching(["a", "ab"], "a.", one, "10.0.0.2") == {"ab"}
        assert not slow.done()
        assert await slow == set()

    asyncio.run(run())


def test_a_pattern_matches_whole_names_and_is_looked_at_without_any() -> None:
    assert asyncio.run(matching(["a", "ab", "ba", "bab"], "a|b.*", gate(), None)) == {"a", "ba", "bab"}
    assert asyncio.run(matching(NAMES, "orders.*", gate(), None)) == set(NAMES)
    for names in ([], ["a"]):
        with pytest.raises(InvalidRequest):
            asyncio.run(matching(names, "(", gate(), None))
