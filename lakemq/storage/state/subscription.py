"""How far a group's receives have come in a topic, and what of it must keep its order."""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any, NamedTuple

from pyroaring import BitMap64

from lakemq.model.names import retry_topic
from lakemq.storage.state.bitmaps import pack, unpack
from lakemq.storage.state.waking import wake_all

Order = str | int
"""What keeps an order of its own: an ordering key, or the queue of messages without one."""
NO_QUEUE = -1
"""The order of retries that came another way than by running out."""


_NONE = BitMap64()


class Cursor:
    """How far the receives have come in one queue. Below `low` all was handed out or passed over; of
    what comes after, the offsets in `ahead` were handed out. `out`: the offsets that are out. `resets`:
    how often the group was set to another place."""

    __slots__ = ("ahead", "low", "out", "queue_id", "resets", "source")

    def __init__(self, source: str, queue_id: int) -> None:
        self.source = source
        self.queue_id = queue_id
        self.low = 0
        self.resets = 0
        self.ahead = BitMap64()
        self.out = BitMap64()

    @property
    def floor(self) -> int:
        """The first offset that isn't finished."""
        return min(self.out.min(), self.low) if self.out else self.low

    def copy(self) -> Cursor:
        """How far it is now, without what is out, to be dumped. There may be very many, nearly all with nothing
        `ahead`, and to make a set takes longer than all the rest."""
        copied = Cursor.__new__(Cursor)
        copied.source, copied.queue_id, copied.low, copied.resets = self.source, self.queue_id, self.low, self.resets
        copied.ahead, copied.out = self.ahead.copy() if self.ahead else _NONE, _NONE
        return copied

    def take(self, offset: int, low: int) -> None:
        """The offset was handed out, and all below `low` is done with."""
        if low > self.low:
            self.low = low
            if self.ahead:
                self.ahead.remove_range(0, low)
        if offset >= self.low:
            self.ahead.add(offset)

    def reset(self, offset: int) -> None:
        """Go on there. What was chosen before moves the place no more."""
        self.low = offset
        self.resets += 1
        self.ahead = BitMap64()


class Waiting(NamedTuple):
    """A retry copy that was not handed out yet: what order it keeps, and where it is."""

    order: Order
    position: int


class Waiters:
    """Who waits for a group's messages of a topic, whether it has received some or not. `any`: to be
    told when the group is set to another place; `ordered`: also when what was held up may go on."""

    __slots__ = ("any", "ordered")

    def __init__(self) -> None:
        self.any: set[asyncio.Future[None]] = set()
        self.ordered: set[asyncio.Future[None]] = set()

    def wake(self) -> None:
        """Tell everybody."""
        wake_all([*self.any, *self.ordered])

    def wake_ordered(self) -> None:
        """Tell those who wait for what was held up."""
        wake_all(list(self.ordered))


_BIRTHS = count(1)


class Subscription:
    """One group's receives of one topic, out of its queues and the group's retry topic."""

    __slots__ = (
        "born",
        "cursors",
        "delayed",
        "group",
        "keys_out",
        "keys_waiting",
        "receipts",
        "topic",
        "turn",
        "used_ms",
        "waiting",
    )

    def __init__(self, group: str, topic: str) -> None:
        self.group = group
        self.topic = topic
        self.born = next(_BIRTHS)
        """Each has its own, also of a group that was deleted and made again; no log says it."""
        self.cursors: dict[tuple[str, int], Cursor] = {}
        self.receipts: dict[int, int] = {}
        """Of each message that is out, by its position: its receipt."""
        self.keys_out: dict[Order, int] = {}
        """How many messages of each order are out."""
        self.waiting: dict[int, Waiting] = {}
        """By offset in the retry topic."""
        self.keys_waiting: dict[Order, int] = {}
        """How many messages of each order are `waiting`, or are nacked and not yet retried."""
        self.delayed: set[int] = set()
        """By position, the nacks of messages that were out, which are not yet retried."""
        self.turn = 0
        """How many receives handed something out since the process began."""
        self.used_ms = 0
        """When somebody received here last, by the clock that counts since the boot; 0: not since the process began."""

    @property
    def is_idle(self) -> bool:
        """Whether nothing is lost with it but the place."""
        return not self.receipts and not self.keys_waiting

    def cursor(self, source: str, queue_id: int) -> Cursor:
        """The cursor of a queue, made when missing."""
        cursor = self.cursors.get((source, queue_id))
        if cursor is None:
            cursor = self.cursors[source, queue_id] = Cursor(source, queue_id)
        return cursor

    def order_of_retry(self, offset: int, key: str | None) -> Order:
        """The order that a retry copy keeps which is handed out now."""
        waited = self.wait_no_more(offset)
        if waited is not None:
            return waited
        return NO_QUEUE if key is None else key

    def wait_for(self, offset: int, order: Order, position: int) -> None:
        """A retry copy was stored."""
        self.waiting[offset] = Waiting(order, position)
        self.hold(order)

    def hold(self, order: Order) -> None:
        """One message more of the order waits."""
        self.keys_waiting[order] = self.keys_waiting.get(order, 0) + 1

    def release(self, order: Order) -> None:
        """One message less of the order waits."""
        _decrease(self.keys_waiting, order)

    def wait_no_more(self, offset: int) -> Order | None:
        """The retry copy was handed out, or is gone; returns its order if it was waited for."""
        waited = self.waiting.pop(offset, None)
        if waited is None:
            return None
        self.release(waited.order)
        return waited.order

    def drop_key(self, order: Order) -> None:
        """One message of the order less is out."""
        _decrease(self.keys_out, order)

    def forget_retries_below(self, offset: int) -> None:
        """Wait for no retry copy below an offset of the retry topic."""
        self.forget_retries_between(0, offset)

    def forget_retries_between(self, begin: int, end: int) -> None:
        """Wait for no retry copy at offsets `begin` ≤ o < `end` of the retry topic. It takes as long as there are
        such offsets: a receive asks for thousands of ranges of one offset, while tens of thousands wait."""
        candidates = range(begin, end) if end - begin < len(self.waiting) else list(self.waiting)
        for waited in candidates:
            if begin <= waited < end:
                self.wait_no_more(waited)

    def copy(self) -> Subscription:
        """The place as it is now, to be dumped."""
        copied = Subscription(self.group, self.topic)
        copied.cursors = {key: each.copy() for key, each in self.cursors.items()}
        copied.waiting = self.waiting.copy()
        return copied

    def dump(self) -> dict[str, Any]:
        """All of it as JSON values, but for what is out."""
        return {
            "group": self.group,
            "topic": self.topic,
            "cursors": [
                [int(each.source != self.topic), each.queue_id, each.low, each.resets, pack(each.ahead)]
                for each in self.cursors.values()
            ],
            "waiting": [[offset, *waited] for offset, waited in self.waiting.items()],
        }

    @classmethod
    def restore(cls, dumped: dict[str, Any]) -> Subscription:
        """What `dump` said."""
        restored = cls(dumped["group"], dumped["topic"])
        for is_retry, queue_id, low, resets, ahead in dumped["cursors"]:
            cursor = restored.cursor(retry_topic(restored.group) if is_retry else restored.topic, queue_id)
            cursor.low, cursor.resets, cursor.ahead = low, resets, unpack(ahead)
        retries = restored.cursors.get((retry_topic(restored.group), 0))
        for offset, order, position in dumped["waiting"]:
            # One of before left what had expired to wait for good, after a crash.
            if retries is None or offset >= retries.low:
                restored.wait_for(offset, order, position)
        return restored


def _decrease(counts: dict[Order, int], order: Order) -> None:
    left = counts.get(order, 0) - 1
    if left > 0:
        counts[order] = left
    else:
        counts.pop(order, None)
