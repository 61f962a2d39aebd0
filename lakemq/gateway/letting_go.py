"""Finds out how far the lake holds the log, by looking: what leaves the log must be there for certain."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from lakemq.settings import Settings
from lakemq.storage.commit_log import CommitLog
from lakemq.storage.lake.certain import Certain, CertainLake

logger = logging.getLogger(__name__)


class LettingGo:
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

    def tell(self, position: int) -> None:
        """Somebody says that the lake holds everything below the position. That alone lets nothing go."""
        self._log.compacted_position = position
        self._told.set()
        if self._believes:
            self._log.retention.certain_position = position

    async def news(self, wait_s: float) -> None:
        """Return when somebody has said something since the last look, or after so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._told.wait()
        self._told.clear()

    async def let_go(self) -> int:
        """Remove the old segments that may go, having looked into the lake for them; how many went."""
        if not self._believes and self._log.retention.asks_the_lake():
            async with self._turn:
                self._note(await self._run(self._lake.look))
        return self._log.retain()

    def _note(self, found: Certain) -> None:
        position, why = found
        if position > self._log.next_position:
            position, why = 0, f"the lake holds position {position}, and the log ends at {self._log.next_position}"
        if why is not None and why != self._why:
            logger.warning("nothing leaves the log: %s", why)
        self._why = why
        self._log.retention.certain_position = position

    def describe(self) -> dict[str, Any]:
        """What `GET /v1/broker` says of it."""
        return {"certain_position": self._log.retention.certain_position, "fault": self._why}
