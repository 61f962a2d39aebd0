"""The jobs, as far as the gateway hears of them."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, NamedTuple

from lakemq.contract.sql_routes import WITHHELD
from lakemq.gateway.routing.job_levels import JobLevels
from lakemq.model.network import leads_home
from lakemq.storage.disk.clock import Clock
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.read.plans import Plans
from lakemq.web.asgi import Client
from lakemq.web.gate import Gate

logger = logging.getLogger(__name__)

ALIVE_MS = 10_000
"""A job that wasn't heard of for so long is dead, as far as anybody here knows."""
KEEPS_UP_MS = 5_000
NAMES_MAX = 64
"""So many jobs are remembered: past that, the one not heard of for longest is forgotten."""
ADDRESSES_MAX = 64
"""So many addresses of SQL, each by who said it, are remembered as no news."""

_WHY_WITHHELD = (
    "the jobs answer SQL only on their own machine, by loopback; for others set sql_http.host, sql_http.port and"
    " sql_http.advertise for the jobs"
)


class Heartbeat(NamedTuple):
    """What a job says of itself: it has read `topics` (None: all) below `position`, and decided by the time
    `clock_ms`; None: it reads no log."""

    name: str
    position: int | None
    clock_ms: int
    topics: frozenset[str] | None


class _Heard(NamedTuple):
    beat: Heartbeat
    counted_ms: int
    wall_ms: int


class _Sql(NamedTuple):
    address: str
    said_here: bool
    counted_ms: int


class Jobs:
    """Who was heard of when. In memory only: after a start nobody was."""

    def __init__(self, log: CommitLog, plans: Plans, clock: Clock, looks: Gate) -> None:
        """`looks`: where requests take turns to look at the log."""
        self._log = log
        self._plans = plans
        self._clock = clock
        self._heard: dict[str, _Heard] = {}
        self._dead: set[str] = set()
        self._sql: _Sql | None = None
        self._said: OrderedDict[tuple[str, str], None] = OrderedDict()
        self._looks = looks
        self.levels = JobLevels(clock)
        """Of what they write to their logs."""

    def hear(self, beats: Iterable[Heartbeat]) -> None:
        """Take heartbeats of one process."""
        counted_ms, wall_ms = self._clock.counted_ms(), self._clock.now_ms()
        for beat in beats:
            self._heard.pop(beat.name, None)  # the last heard stands last
            self._heard[beat.name] = _Heard(beat, counted_ms, wall_ms)
        while len(self._heard) > NAMES_MAX:
            del self._heard[next(iter(self._heard))]
        self.look()

    def is_news(self, user: str, address: str) -> bool:
        """Whether `hear_sql` hasn't heard it of that user, or so long ago that it is forgotten."""
        return (user, address) not in self._said

    def hear_sql(self, user: str, address: str, here: bool) -> None:
        """That jobs of this user answer SQL there. Clients send their tokens to there. `here`: whether those jobs are
        on the broker's machine."""
        self._sql = _Sql(address, here, self._clock.counted_ms())
        self._said[user, address] = None
        self._said.move_to_end((user, address))
        if len(self._said) > ADDRESSES_MAX:
            self._said.popitem(last=False)

    def sql_for(self, here: bool) -> dict[str, str | None]:
        """Where jobs that are alive answer SQL, for who asks on the broker's machine (`here`) or elsewhere. An address
        on loopback leads to them only where they and who asks are on one machine: from any other a client would send
        its token to whatever listens there. So it is said here alone, and else why it isn't."""
        known = self._sql
        if known is None or self._clock.counted_ms() - known.counted_ms > ALIVE_MS:
            return {"sql": None}
        if leads_home(known.address) and not (here and known.said_here):
            return {"sql": None, WITHHELD: _WHY_WITHHELD}
        return {"sql": known.address}

    def _is_alive(self, heard: _Heard, within_ms: int = ALIVE_MS) -> bool:
        return self._clock.counted_ms() - heard.counted_ms <= within_ms

    def is_alive(self, name: str) -> bool:
        """Whether the job was heard of lately."""
        heard = self._heard.get(name)
        return heard is not None and self._is_alive(heard)

    def decided_up_to(self, name: str, lead_ms: int) -> int:
        """All that is due before that time the job has decided, in ms; 0 when it isn't heard of."""
        heard = self._heard.get(name)
        return heard.beat.clock_ms + lead_ms if heard is not None and self._is_alive(heard, KEEPS_UP_MS) else 0

    def dead(self) -> list[str]:
        """Those that were heard of once, and aren't any more."""
        return sorted(name for name, heard in self._heard.items() if not self._is_alive(heard))

    def look(self) -> None:
        """Say who has gone silent, and who is back."""
        dead = set(self.dead())
        for name in sorted(dead - self._dead):
            logger.warning("the job %s has been silent for %d s", name, ALIVE_MS // 1000)
        for name in sorted(self._dead - dead):
            logger.info("the job %s is back", name)
        self._dead = dead

    def position_of(self, name: str) -> int | None:
        """How far the job has read the log, as it said last; None: it isn't known, or reads none."""
        heard = self._heard.get(name)
        return None if heard is None else heard.beat.position

    async def describe(self, client: Client = None) -> dict[str, dict[str, Any]]:
        """By name: whether the job is alive, how many positions of the log it is behind (None: it reads
        none), and when it was heard of last. Raises `LogDamaged`, `Busy`."""
        found: dict[str, dict[str, Any]] = {}
        for name, heard in sorted(self._heard.items()):
            lag = await self._lag(heard.beat, client)
            last = self._heard.get(name, heard)  # it goes on while the log is looked at for it
            found[name] = {
                "alive": self._is_alive(last),
                "lag": lag,
                "position": heard.beat.position,
                "last_heartbeat_ms": last.wall_ms,
            }
        return found

    async def _lag(self, beat: Heartbeat, client: Client) -> int | None:
        if beat.position is None:
            return None
        if beat.topics is None:
            return max(self._log.next_position - beat.position, 0)
        async with self._looks.place(client):  # the next one finds what this one read
            end = await self._plans.end_of(beat.topics, beat.position, asyncio.to_thread)
        return end() - beat.position
