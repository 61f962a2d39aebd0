"""The messages of one queue that a consumer holds: pulled, in work, not yet finished.

Used in the event loop's thread only, but for `Work.done`, which the thread that processes the
messages sets. What may be committed is the lowest offset that isn't finished: whatever happens to
the consumer, all below it was processed, or is at the broker again to be consumed later.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from lakemq.model.errors import InvalidRequest
from lakemq.model.pull_limit import MESSAGES_PER_PULL_MAX

M = TypeVar("M")


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of one queue a consumer holds. The defaults are those of RocketMQ.

    A pull asks for no more than what is left of `messages`. `bytes` and `span` are checked before each pull, so the
    answer to one pull may exceed them. Raises `InvalidRequest` for limits that hold nothing.
    """

    messages: int = 1_000
    bytes: int = 100 * 1024 * 1024
    span: int = 2_000
    """The distance from the lowest unfinished offset to the next one to be pulled."""

    def __post_init__(self) -> None:
        if min(self.messages, self.bytes, self.span) < 1:
            raise InvalidRequest("limits are at least 1")


class Work(Generic[M]):
    """Messages that one worker processes, in order.

    `done`: so many of them, from the first on, are processed for good. A worker doesn't count it past
    a message that failed, until that is at the broker again.
    """

    __slots__ = ("bytes", "count", "done", "messages", "offsets")

    def __init__(self, messages: list[M], offsets: Sequence[int], bytes_held: int) -> None:
        self.messages = messages
        self.offsets = offsets
        self.bytes = bytes_held
        self.count = len(messages)
        self.done = 0

    def keep(self, numbers: Sequence[int]) -> None:
        """Leave only these messages, none of which is done; all others are."""
        self.messages = [self.messages[number] for number in numbers]
        self.offsets = [self.offsets[number] for number in numbers]
        self.done = 0

    @property
    def lowest_unfinished(self) -> int | None:
        """The offset of the first message that isn't done; None when all are."""
        done = self.done
        return self.offsets[done] if done < len(self.offsets) else None


class ProcessQueue(Generic[M]):
    """One queue's messages, from offset `next_offset` on.

    `dropped`: the queue isn't this consumer's any more. What is in work ends after the message that
    is being processed, and nothing more is taken. `quiet` is set while nothing is in work; `freed`
    whenever there may be more room.
    """

    def __init__(self, next_offset: int, limits: Limits | None = None) -> None:
        self.next_offset = next_offset
        self.dropped = False
        self.count = 0
        self.bytes = 0
        self.waiting = 0
        """Messages that nobody has taken."""
        self.quiet = asyncio.Event()
        self.quiet.set()
        self.freed = asyncio.Event()
        self._limits = limits or Limits()
        self._pulled: deque[Work[M]] = deque()
        self._out: deque[Work[M]] = deque()
        self._working = 0

    @property
    def room(self) -> int:
        """How many messages to pull now; 0 while it holds too many to be worth a pull."""
        limits = self._limits
        most = min(limits.messages, MESSAGES_PER_PULL_MAX)
        room = most - self.count
        # A few messages cost nearly as much to pull as many: so only when half of all is free.
        if room * 2 < most or self.bytes >= limits.bytes:
            return 0
        if self.next_offset - self.lowest_unfinished >= limits.span:
            return 0
        if self.count:
            room = min(room, (limits.bytes - self.bytes) * self.count // max(self.bytes, 1) + 1)
        return room

    @property
    def lowest_unfinished(self) -> int:
        """What may be committed."""
        for work in self._out:
            if (offset := work.lowest_unfinished) is not None:
                return offset
        if self._pulled:
            first = self._pulled[0]
            return first.offsets[first.done]
        return self.next_offset

    def put(self, messages: list[M], offsets: Sequence[int], bytes_held: int, next_offset: int) -> None:
        """What a pull answered, in the order of offsets; the next one begins at `next_offset`."""
        assert not self.dropped
        assert len(messages) == len(offsets)
        self.next_offset = next_offset
        if messages:
            self._pulled.append(Work(messages, offsets, bytes_held))
            self.count += len(messages)
            self.waiting += len(messages)
            self.bytes += bytes_held

    def take(self, count_max: int) -> Work[M] | None:
        """The next messages that nobody has taken, at most so many."""
        if not self._pulled:
            return None
        pulled = self._pulled[0]
        begin = pulled.done
        end = min(begin + count_max, len(pulled.messages))
        if begin == 0 and end == len(pulled.messages):
            work = pulled
        else:
            # The part's share of the bytes; the last part takes what is left of them.
            share = pulled.bytes * (end - begin) // (len(pulled.messages) - begin)
            work = Work(pulled.messages[begin:end], pulled.offsets[begin:end], share)
            pulled.bytes -= share
            pulled.done = end
        if end == len(pulled.messages):
            self._pulled.popleft()
        self._out.append(work)
        self.waiting -= end - begin
        self._working += 1
        self.quiet.clear()
        return work

    def replace(self, work: Work[M], numbers: Sequence[int]) -> Work[M]:
        """Have other work in its place, of these messages; all others are processed. Who still works on the old one
        changes nothing by it."""
        fresh = Work([work.messages[each] for each in numbers], [work.offsets[each] for each in numbers], work.bytes)
        fresh.count = work.count
        self._out[self._out.index(work)] = fresh
        return fresh

    def finish(self, work: Work[M]) -> None:
        """All of it is processed."""
        work.done = len(work.offsets)
        self.count -= work.count
        self.bytes -= work.bytes
        while self._out and self._out[0].lowest_unfinished is None:
            self._out.popleft()
        self.leave(work)

    def leave(self, work: Work[M]) -> None:
        """Nobody works on it any more, though not all may be done: the queue was dropped."""
        self.freed.set()
        self._working -= 1
        if not self._working:
            self.quiet.set()

    def drop(self) -> None:
        """Forget what nobody has taken: it is pulled again by whoever has the queue next."""
        self.dropped = True
        if self._pulled:
            first = self._pulled[0]
            self.next_offset = first.offsets[first.done]
            self._pulled.clear()
        self.waiting = 0
