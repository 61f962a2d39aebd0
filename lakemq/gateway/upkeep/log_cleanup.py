"""Finds out how far the lake holds the log, by looking: what leaves the log must be there for certain."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from lakemq.model.disk_outlook import DiskOutlook, fills_up
from lakemq.settings import Settings
from lakemq.storage.lake.certain import Certain, CertainLake
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.log.letting_go import let_go

logger = logging.getLogger(__name__)

FULL_SOON_S = 24 * 3600.0
"""A disk that will be full within that is worth a word, when nothing leaves."""


class LogCleanup:
    """What one broker knows of its lake. Lives on the event loop; looks in a thread, one look at a time."""

    def __init__(
        self, settings: Settings, log: CommitLog, run: Callable[[Callable[[], Certain]], Awaitable[Certain]]
    ) -> None:
        """`run` does something in a thread that gives way to all others."""
        self._believes = not settings.lake.verify
        self._log = log
        self._run = run
        self._lake = CertainLake(settings.lake.dir, settings.broker.name)
        self._turn = asyncio.Lock()
        self._told = asyncio.Event()
        self._why: str | None = None
        self._outlook = DiskOutlook()
        self._said: list[str] = []
        self._full: str | None = None

    def tell(self, position: int) -> None:
        """Somebody says that the lake holds everything below the position. That alone lets nothing go."""
        self._log.compacted_position = position
        self._told.set()
        if self._believes:
            self._log.retention.certain_position = position

    def look_again(self) -> None:
        """There is something to see to."""
        self._told.set()

    async def news(self, wait_s: float) -> None:
        """Return when somebody has said something since the last look, or after so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._told.wait()
        self._told.clear()

    async def clean_up(self) -> int:
        """Remove the old segments that may go, having looked into the lake for them; how many went."""
        self._outlook.look(self._log.retention.room()[0], time.monotonic())
        if not self._believes and self._log.retention.asks_the_lake():
            async with self._turn:
                self._note(await self._run(lambda: self._lake.look(log_id=self._log.identity.log_id)))
        removed = await let_go(self._log)
        for line in self.degraded():
            if line.partition(":")[0] not in [said.partition(":")[0] for said in self._said]:
                logger.warning("%s", line)
        self._said = self.degraded()
        self._say_full(self._log.full)
        return removed

    def _say_full(self, full: str | None) -> None:
        """That messages are refused, and that they are taken again; `/readyz` says it too."""
        if full is not None and self._full is None:
            logger.error("no message is accepted: %s", full)
        elif full is None and self._full is not None:
            logger.info("messages are accepted again")
        self._full = full

    def _note(self, found: Certain) -> None:
        position, why = found
        if position > self._log.next_position:
            position, why = 0, f"the lake holds position {position}, and the log ends at {self._log.next_position}"
        if why is not None and why != self._why:
            logger.warning("nothing leaves the log: %s", why)
        self._why = why
        self._log.retention.certain_position = position

    @property
    def full_in_s(self) -> float | None:
        """When the log will be refused more, if the disk fills as it does; None: it doesn't."""
        return self._outlook.full_in_s(self._log.settings.free_bytes_min)

    def degraded(self) -> list[str]:
        """What will stop the log, or keeps it from letting go, before it does; a line each."""
        log, found = self._log, list[str]()
        free, total = log.retention.room()
        full_in_s = self.full_in_s
        crowded = total - free > total * log.settings.disk_high_ratio
        stuck = log.retention.asks_the_lake() and not log.retention.oldest_is_certain
        if stuck:
            why = self._why or "the lake does not hold it yet: do the jobs run?"
            found.append(f"nothing can leave the log: {why}")
        if crowded or (stuck and full_in_s is not None and full_in_s < FULL_SOON_S):
            found.append(fills_up(free, total, full_in_s))
        jump = log.retention.jump
        if jump is not None:
            found.append(
                f"the clock has jumped: it is {jump.ahead_ms // 1000} s ahead, so nothing is deleted by its age"
            )
        return found

    def describe(self) -> dict[str, Any]:
        """What `GET /v1/broker` says of it."""
        full_in_s = self.full_in_s
        return {
            "certain_position": self._log.retention.certain_position,
            "fault": self._why,
            "dropped": self._log.retention.dropped.ranges,
            "disk_full_in_ms": None if full_in_s is None else int(full_in_s * 1000),
        }
