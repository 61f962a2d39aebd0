"""How far a primary's followers have carried out the log's erasures.

Who is in sync is waited for. Whoever else follows is told of an erasure as it begins, and shows no messages until it
has carried it out; whoever isn't heard of, or said that it stops, is told as it comes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from lakemq.model.errors import NotConfirmed
from lakemq.model.in_sync import Member

POLL_S = 0.01
HEARD_MAX = 1_000
"""So many followers are remembered beside those in sync, each life of a replica being another: then the one that was
heard of longest ago isn't waited for, and is told as it asks again."""


@dataclass
class _Heard:
    """What a follower last said, and was told: below which record all are carried out, or are to be before it shows
    messages."""

    at_s: float
    done: int = 0
    told: int = 0
    has_left: bool = False
    """It said that it stops, and was not heard since: it shows nobody anything."""


class ErasedBy:
    """That of one primary. Lives on the event loop."""

    def __init__(self, silent_ms: int, members: Callable[[], AbstractSet[Member]]) -> None:
        """Who isn't heard of for `silent_ms` is away. `members`: who is in sync, or may be."""
        self._silent_s = silent_ms / 1000
        self._members = members
        self._followers: dict[Member, _Heard] = {}
        self._waiting = 0
        self.begun = 0
        """Whoever isn't in sync carries out all records below before it shows messages."""
        self.answered = 0
        """All in sync have carried out the records below."""
        self.asked: Callable[[], object] = lambda: None
        """Called when followers that wait are to say how far they are."""

    def begin(self, end: int) -> None:
        """The primary has carried out all below as it starts: whoever lacks any was away."""
        self.begun = self.answered = max(self.answered, end)

    def hear(self, member: Member, done: int) -> None:
        """A follower says how far it is."""
        now_s = asyncio.get_running_loop().time()
        known = self._followers.get(member)
        if known is None:
            self._make_room(now_s)
            known = self._followers[member] = _Heard(now_s)
        known.at_s, known.done, known.has_left = now_s, done, False

    def leave(self, member: Member) -> None:
        """A follower says that it stops: it is waited for only as long as it is in sync."""
        if (known := self._followers.get(member)) is not None:
            known.has_left = True

    def _make_room(self, now_s: float) -> None:
        members = self._members()
        others = {each: known.at_s for each, known in self._followers.items() if each not in members}
        kept = sorted((each for each, at_s in others.items() if now_s - at_s <= self._silent_s), key=others.__getitem__)
        for each in others.keys() - set(kept[-HEARD_MAX + 1 :]):
            del self._followers[each]

    @property
    def remembered(self) -> int:
        """So many followers are."""
        return len(self._followers)

    def to_be_done(self, member: Member | None) -> int:
        """What a follower is told: so many records it carries out before it shows messages."""
        if member is not None and member in self._members():
            return self.answered
        if member is not None and (known := self._followers.get(member)) is not None:
            known.told = self.begun
        return self.begun

    def wants_news(self, done: int) -> bool:
        """Whether somebody waits for more than a follower has carried out."""
        return done < self._waiting

    async def until(self, end: int, seconds: float) -> None:
        """Wait until all in sync have carried out all records below `end`. Raises `NotConfirmed` when the time is
        over."""
        loop = asyncio.get_running_loop()
        until_s, self.begun = loop.time() + seconds, max(self.begun, end)
        self._waiting = max(self._waiting, end)
        try:
            self.asked()
            while lacking := self._lacking(end, loop.time()):
                if loop.time() > until_s:
                    who = ", ".join(str(replica) for replica in sorted(lacking))
                    raise NotConfirmed(f"it is erased here, but not yet at replica {who}, which continues")
                await asyncio.sleep(POLL_S)
        finally:
            self._waiting = 0
        self.answered = max(self.answered, end)

    def _lacking(self, end: int, now_s: float) -> set[int]:
        """The replicas that have to be waited for."""
        members = self._members()
        lacking = {each for each in members if (known := self._followers.get(each)) is None or known.done < end}
        for member, known in list(self._followers.items()):
            if known.has_left or now_s - known.at_s > self._silent_s:
                if member not in members:
                    del self._followers[member]
            elif member not in members and max(known.told, known.done) < end:
                lacking.add(member)
        return {each.replica for each in lacking}
