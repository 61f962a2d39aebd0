"""A name server: its registry, what is answered of it, who waits for that, and when somebody is gone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from lakemq.model.errors import Busy, FlowControl
from lakemq.nameserver.access import Access
from lakemq.nameserver.answers import Answers, Routes
from lakemq.nameserver.heartbeat import digest_of, parse_registration
from lakemq.nameserver.intake import Intake
from lakemq.nameserver.probe import Prober
from lakemq.nameserver.registry import Key, Registry, Source
from lakemq.nameserver.watchers import Watchers
from lakemq.settings import NameServer as Limits
from lakemq.web.counters import WebCounters
from lakemq.web.room import Room

logger = logging.getLogger(__name__)

TICK_S = 1.0
LATE_S = 1.0
"""A tick that is later than this says that the process stood still: nobody could be heard meanwhile."""


@dataclass(slots=True)
class Counters(WebCounters):
    """Totals since the process began. `expired`, and `unreachable`, whose machine refused a connection: replicas that
    are gone without a goodbye."""

    heartbeats: int = 0
    expired: int = 0
    unreachable: int = 0

    @property
    def refused(self) -> int:
        """Heartbeats and watches that a bound had no room for."""
        return self.problems.get(FlowControl.code, 0) + self.problems.get(Busy.code, 0)


class NameServer:
    """Lives on the event loop, whose clock no setting of the system's moves."""

    def __init__(self, limits: Limits) -> None:
        """Raises `SettingsError` where the file of its tokens is none."""
        self.limits = limits
        self.access = Access(limits.token_file, self._now_s)
        self.registry = Registry(limits)
        self.counters = Counters()
        self._intake = Intake(limits)
        self._answers = Answers(self.registry)
        watching = Room.shared(limits.waiters_max, limits.client_share)
        self.watchers = Watchers(watching, lambda topic: self._answers.of(topic).version, self._has_room)
        self._prober = Prober(self.registry, limits.probe_ms, self.refused) if limits.probe_ms else None
        self._refusing: list[str] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.leaving = False

    def depart(self) -> None:
        """Be ready no more; it serves on."""
        self.leaving = True

    def start(self) -> None:
        """Look after those who say nothing more, until `close`."""
        loop = asyncio.get_running_loop()
        self._tasks.append(loop.create_task(self._expire()))
        if self._prober is not None:
            self._tasks.append(loop.create_task(self._prober.run()))

    async def close(self) -> None:
        """Look after nobody any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def hear(self, key: Key, body: bytes, source: Source, gone: Callable[[], asyncio.Future[None]]) -> None:
        """A heartbeat has come. Raises `InvalidRequest`, `InvalidTopic`, `FlowControl`, `Busy`.

        What waits for its turn is nothing any more when its sender is `gone`: he may have said goodbye since.
        """
        said = digest_of(body)
        if self.registry.goes_on(key, said, source, self._now_s()):
            self.counters.heartbeats += 1
            return  # as nearly all do: what it says was read before
        self.hear_of(key)
        left = gone()
        async with self._intake.turn(source, len(body)):
            if left.done():
                return
            self.registry.hear(key, parse_registration(body), said, source, self._now_s())
            self._settle()

    def hear_of(self, key: Key) -> None:
        """A heartbeat has come, whatever it says: a replica that is known goes on as it is."""
        self.counters.heartbeats += 1
        self.registry.renew(key, self._now_s())

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()

    def leave(self, key: Key) -> None:
        """The replica has said goodbye, whether it was there or not."""
        self.registry.leave(key)
        self._settle()

    def refused(self, key: Key, heard_s: float) -> None:
        """The replica's machine has refused a connection; it is gone, unless it was heard of since `heard_s`."""
        heard = self.registry.heard(key)
        if heard is not None and heard.heard_s == heard_s and self.registry.leave(key):
            self.counters.unreachable += 1
            self._refusing.append(f"{key.broker}/{key.replica} at {heard.told.address}")
            self._settle()

    def routes(self, topic: str | None) -> Routes:
        """What there is of the topic now, or of all."""
        return self._answers.of(topic)

    def _has_room(self) -> bool:
        return self.counters.unsent_bytes() < self.limits.answer_bytes_max // 2

    def _settle(self) -> None:
        changed = self.registry.take_changed()
        if changed:
            self._answers.forget(changed)
            self.watchers.moved(changed)

    async def _expire(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            planned_s = loop.time() + TICK_S
            await asyncio.sleep(TICK_S)
            self._tick(loop.time(), loop.time() - planned_s)

    def _tick(self, now_s: float, late_s: float) -> None:
        self.access.look()
        # A line a tick at most, however many come and go.
        if self._refusing:
            logger.info(
                ("removed %d replicas that refuse connections, the first is %s"), len(self._refusing), self._refusing[0]
            )
            self._refusing.clear()
        if late_s > LATE_S:
            logger.warning("the name server was suspended for %.1f s: no replica expires because of that", late_s)
            self.registry.stood_still(now_s)
        elif expired := self.registry.expire(now_s):
            self.counters.expired += expired
            logger.info("removed %d silent replicas", expired)
            self._settle()
