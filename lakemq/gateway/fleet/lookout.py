"""Who leads, as one replica has seen it last: it looks into the store now and then, and writes there who is to lead."""

from __future__ import annotations

import asyncio
import logging

from lakemq.gateway.fleet.leadership import Leadership
from lakemq.model.beat import Beat
from lakemq.model.election import Pulse, leads_by
from lakemq.model.errors import LogDamaged
from lakemq.model.in_sync import Record

logger = logging.getLogger(__name__)

LOOKS = 5
"""So often within a lease who doesn't lead looks."""
SOON_MS = 50
"""So often while it isn't known where a new leader is asked, for a lease at most: it can't be asked until it is
followed. The first one is new, too: of replicas that are started at once the others wait for its record."""


class Lookout:
    """That of one replica. Lives on the loop."""

    def __init__(self, leadership: Leadership, lease_ms: int) -> None:
        self._leadership = leadership
        self._lease_ms = lease_ms
        self._loop = asyncio.get_running_loop()
        self._awake = asyncio.Event()
        self._turned_ms = self.now_ms()
        """When another leader was seen last; at first: since when one is looked for."""
        self.pulse = Pulse(lease_ms)
        self.beat: Beat | None = None
        self.record: Record | None = None
        """The last that is known to have been in force."""
        self.problem: str | None = "the leader is not known yet"
        """Why nobody is led or followed just now, or not surely."""

    def now_ms(self) -> int:
        """By the clock that beats are counted by."""
        return int(self._loop.time() * 1000)

    def where(self) -> str:
        """The leader's address; empty: it isn't known."""
        return self.beat.address if self.beat is not None and self.beat.is_of(self.record) else ""

    def wake(self) -> None:
        """End the `rest` of now, or the next one where there is none."""
        self._awake.set()

    def begin(self) -> None:
        """What is done from now on is what `wake` asked for."""
        self._awake.clear()

    def turned(self) -> None:
        """Another leads from now on, and nothing was heard of it yet."""
        self._turned_ms = self.now_ms()
        self.pulse = Pulse(self._lease_ms)

    async def look(self) -> bool:
        """Look at the record and the beat; whether they could be seen."""
        self.begin()
        begun_ms = self.now_ms()
        try:
            record, beat = await self._leadership.read(), await self._leadership.last_beat()
        except (OSError, LogDamaged) as error:
            self.note(f"who leads can't be seen: {error}")
            return False
        if leads_in(record) != leads_in(self.record):
            self._turned_ms = begun_ms
        self.record, self.beat = record, beat
        self.pulse.see(record, beat, begun_ms, self.now_ms())
        return True

    def look_ms(self) -> int:
        """How long after one look the next one is."""
        usual_ms = self._lease_ms // LOOKS
        is_soon = not self.where() and self.now_ms() - self._turned_ms < self._lease_ms
        return min(SOON_MS, usual_ms) if is_soon else usual_ms

    async def rest(self, until_ms: int | None = None) -> None:
        """Until it is time for the next look, or for what is to be done then, or somebody wants one."""
        end_ms = self.now_ms() + self.look_ms() if until_ms is None else until_ms
        if (rest_ms := end_ms - self.now_ms()) > 0:
            try:
                await asyncio.wait_for(self._awake.wait(), rest_ms / 1000)
            except TimeoutError:
                return

    async def propose(self, record: Record) -> bool:
        """Propose it until it is known what became of it: whether it is in force, or was until others came in sync, or
        were let go."""
        while True:
            try:
                if await self._leadership.compare_and_set(record):
                    self.record = record
                    return True
                found = await self._leadership.read()
            except (OSError, LogDamaged) as error:
                self.note(f"who leads can't be written down: {error}")
            else:
                self.record = found or self.record
                if found is not None and found.version >= record.version:
                    return leads_by(found, record)
            await self.rest()

    def note(self, problem: str | None) -> None:
        """What is wrong now; None: nothing."""
        if problem is not None and problem != self.problem:
            logger.warning("%s", problem)
        self.problem = problem


def leads_in(record: Record | None) -> tuple[int, int] | None:
    """Who leads, and in which epoch."""
    return None if record is None else (record.leader, record.epoch)
