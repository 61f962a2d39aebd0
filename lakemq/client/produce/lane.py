"""Batches on their way to one place, in their order."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from lakemq.client.produce.batch import Batch
from lakemq.model.message_queue import MessageQueue


class LaneKind(NamedTuple):
    """Which messages share batches.

    `queue`: those of one queue, in order, one batch at a time. `keyed`: those with an ordering key while
    the topic's queues aren't known. `delayed`: those that JSON only can say, or of which only an
    answer in JSON says where they are. `oneway`: those that nobody is told of. None of these: all that go to any queue.
    """

    topic: str
    queue: MessageQueue | None = None
    keyed: bool = False
    delayed: bool = False
    oneway: bool = False

    @property
    def ordered(self) -> bool:
        """Whether no batch may overtake another."""
        return self.queue is not None or self.keyed

    @property
    def as_json(self) -> bool:
        """Whether its requests are JSON, and each message's place is answered."""
        return self.keyed or self.delayed


class Lane:
    """The open batch, those that are full, those under way, and those of them that are `late`: bound to a
    broker that doesn't answer while another is well, so they hold up nobody. Guarded by the producer's
    lock, but for `timer`, which is the event loop's."""

    __slots__ = ("flying", "kind", "late", "open", "ready", "timer", "woken")

    def __init__(self, kind: LaneKind) -> None:
        self.kind = kind
        self.open: Batch | None = None
        self.ready: deque[Batch] = deque()
        self.flying: set[Batch] = set()
        self.late: set[Batch] = set()
        self.woken = False
        self.timer: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Whether there is nothing in it."""
        return self.open is None and not self.ready and not self.flying and not self.late

    def batches(self) -> list[Batch]:
        """All that haven't ended."""
        return [*self.late, *self.flying, *self.ready, *([self.open] if self.open is not None else [])]

    def is_late(self, batch: Batch) -> None:
        """A batch under way takes its time: others may go in its place."""
        if batch in self.flying:
            self.flying.discard(batch)
            self.late.add(batch)

    def end(self, batch: Batch) -> None:
        """A batch is no longer being sent."""
        self.flying.discard(batch)
        self.late.discard(batch)

    def take(self, in_flight_max: int, linger_s: float, now_s: float, flushing: bool) -> Batch | None:
        """The next batch to be sent now, which is under way from now on.

        A full one when few enough are under way. One that isn't full when none is under way, because waiting would gain
        nothing (Nagle's rule), or when its linger time has passed.
        """
        if len(self.flying) >= (1 if self.kind.ordered else in_flight_max):
            return None
        if self.ready:
            batch = self.ready.popleft()
        elif self.open is not None and (flushing or not self.flying or now_s - self.open.begun_s >= linger_s):
            batch, self.open = self.open, None
        else:
            return None
        self.flying.add(batch)
        return batch
