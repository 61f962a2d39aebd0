"""What a consumer is not handed, as no message is there any more: told, once."""

from __future__ import annotations

import logging
from bisect import insort
from collections import OrderedDict
from collections.abc import Callable, Sequence

from lakemq.client.consume.called import is_async
from lakemq.model.errors import InvalidRequest
from lakemq.model.message_queue import MessageQueue

logger = logging.getLogger("lakemq.client")

OnGap = Callable[[MessageQueue, int, int], None]
Range = tuple[int, int]
"""Offsets `begin ≤ o < end`."""

QUEUES_MAX = 10_000
RANGES_MAX = 1_000
"""What is remembered as told: of so many queues, so many ranges each. Past that something may be told again."""
SHOWN_MAX = 5


class Told:
    """The offsets of one queue that somebody was told of: `ranges`, ascending, none touching another."""

    def __init__(self) -> None:
        self.ranges: list[Range] = []

    def add(self, begin: int, end: int) -> list[Range]:
        """Tell of these offsets; those that nobody was told of before."""
        new: list[Range] = []
        kept: list[Range] = []
        at, low, high = begin, begin, end
        for first, after in self.ranges:
            if after < begin or first > end:
                kept.append((first, after))
                continue
            if first > at:
                new.append((at, first))
            at = max(at, after)
            low, high = min(low, first), max(high, after)
        if at < end:
            new.append((at, end))
        insort(kept, (low, high))
        self.ranges = kept[-RANGES_MAX:]
        return new


class Gaps:
    """Tells of each gap by a warning in the log and, where there is one, a function of the user's. A consumer
    that comes to the same offsets again, by a seek or as it gets a queue back, does not tell of them again.

    Raises `InvalidRequest` for what can't be called, or of which a call runs nothing.
    """

    def __init__(self, on_gap: OnGap | None) -> None:
        self._on_gap = _check(on_gap)
        self._told: OrderedDict[MessageQueue, Told] = OrderedDict()

    def note(self, queue: MessageQueue, holes: Sequence[Range]) -> None:
        """The queue has no messages in these ranges any more. What the user's function raises is logged."""
        if not holes:
            return
        told = self._told.setdefault(queue, Told())
        self._told.move_to_end(queue)
        new = [each for begin, end in holes for each in told.add(begin, end)]
        while len(self._told) > QUEUES_MAX:
            self._told.popitem(last=False)
        if not new:
            return
        logger.warning("%s no longer has the messages at %s", queue, _shown(new))
        if self._on_gap is None:
            return
        for begin, end in new:
            try:
                self._on_gap(queue, begin, end)
            except Exception:
                logger.exception("on_gap failed")

    def note_out_of_range(self, queue: MessageQueue, offset: int, next_offset: int) -> None:
        """The queue, asked for `offset`, begins with or ends at `next_offset`."""
        if offset < next_offset:
            self.note(queue, [(offset, next_offset)])
        else:
            logger.warning("%s ends before offset %d: continuing at %d", queue, offset, next_offset)


def _shown(ranges: Sequence[Range]) -> str:
    texts = [f"{begin}" if end == begin + 1 else f"{begin} to {end - 1}" for begin, end in ranges[:SHOWN_MAX]]
    more = [f"{len(ranges) - SHOWN_MAX:,} ranges more"] if len(ranges) > SHOWN_MAX else []
    return f"offset{'s' * (len(ranges) > 1 or ranges[0][1] > ranges[0][0] + 1)} {', '.join(texts + more)}"


def _check(on_gap: OnGap | None) -> OnGap | None:
    if on_gap is None:
        return None
    if not callable(on_gap):
        raise InvalidRequest(f"on_gap is a function of queue, offset and next offset, not {on_gap!r:.100}")
    if is_async(on_gap):
        raise InvalidRequest(
            "on_gap is an async def, which a call doesn't run: give a plain function that waits for nothing"
        )
    return on_gap
