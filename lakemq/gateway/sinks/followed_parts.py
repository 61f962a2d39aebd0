"""Parts of sinks at a follower: it has those of a committed batch on its disk before it says that it has the record
that commits them. So whoever takes its primary's place can store what is left of the batch.

Parts that are about to be committed come earlier, and are kept aside until the record has come: one that never does
leaves no staged part here.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from lakemq.gateway.sinks.staging import BadPart, Part, Staging
from lakemq.model.errors import LakemqError
from lakemq.model.names import SINK_TOPIC
from lakemq.storage.log.commit_log import CommitLog
from lakemq.wire.connections import NoAnswer

logger = logging.getLogger(__name__)
RETRY_S = 0.5
ASIDE_S_MAX = 600.0
"""What was taken aside, and is not committed after so long, goes when others are."""


class Source(Protocol):
    """Who has the parts."""

    def take(self, token: str, keep: Callable[[Iterable[bytes]], Part]) -> asyncio.Future[Part]:
        """What `keep` returns of the part's file, in pieces; it is called in a thread."""
        ...

    def close(self) -> None:
        """Take no more."""
        ...


class FollowedParts:
    """Those of one follower. Lives on the log's event loop; `staging` is loaded."""

    def __init__(self, log: CommitLog, staging: Staging, source: Source) -> None:
        self._log = log
        self._staging = staging
        self._source = source
        self._seen: int | None = None
        self._clear = 0
        """Below it the log commits no parts that are lacking."""
        self._lacking: dict[str, None] = {}
        self._offered: dict[str, None] = {}
        """About to be committed, and not here yet."""
        self._aside: dict[str, float] = {}
        """When each was taken."""
        self._over: deque[tuple[int, list[Part]]] = deque()
        """Parts that are needed no more once the log is confirmed so far."""
        self._awake = asyncio.Event()
        self._turn = asyncio.Lock()
        """Held while a part is taken."""
        self._task: asyncio.Task[None] | None = None
        self._problem: str | None = None

    def start(self) -> None:
        """Begin to take what is lacking."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Take no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._source.close()

    # How far this replica is -----------------------------------------------------------------

    def durable(self) -> int:
        """How far the log, and what it commits, is on disk here."""
        self._look()
        if not self._lacking:
            self._clear = self._log.next_position
        return min(self._log.flushed_position, self._clear)

    def _look(self) -> None:
        """See which parts the log's records ask for now, and which no more."""
        log = self._log
        while self._over and self._over[0][0] <= log.confirmed_position:
            asyncio.get_running_loop().run_in_executor(None, self._staging.remove, self._over.popleft()[1])
        topic = log.topics.find(SINK_TOPIC)
        end = 0 if topic is None else topic.queues[0].next_offset
        if end == self._seen:
            return
        self._seen = end
        state, staged = log.state.sinks, self._staging.all()
        held = {part.token for part in staged}
        self._lacking = {token: None for token in state.tokens() if token not in held}
        over = [part for part in staged if state.is_over(part.sink, part.batch, part.name, part.token)]
        for part in over:
            self._staging.forget(part)
        if over:
            self._over.append((log.next_position, over))
        if self._lacking:
            self._awake.set()

    def offer(self, tokens: Iterable[str]) -> None:
        """The primary is about to commit these."""
        known = self._aside.keys() | self._offered.keys() | self._lacking.keys()
        fresh = [token for token in tokens if token not in known]
        if fresh:
            self._offered.update(dict.fromkeys(fresh))
            self._awake.set()

    async def give_up_offered(self) -> None:
        """Let go of what is not committed: messages have been erased, and these may be copies of some."""
        self._offered.clear()
        async with self._turn:
            await self._drop_aside(list(self._aside))

    async def _drop_aside(self, tokens: list[str]) -> None:
        for token in tokens:
            self._aside.pop(token, None)
        await asyncio.to_thread(self._staging.drop_aside, tokens)

    # Taking ----------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._awake.clear()
            self._problem, failed = None, False
            for token in [*self._lacking, *self._offered]:
                try:
                    async with self._turn:
                        await self._take(token)
                except Exception as error:  # noqa: BLE001  whatever it is, it is tried again
                    failed = True
                    self._say(token, error)
            if failed:
                await asyncio.sleep(RETRY_S)
            if not self._lacking:
                await self._awake.wait()

    async def _take(self, token: str) -> None:
        """Have the part here: aside, if it isn't committed yet."""
        staging = self._staging
        if token in self._lacking:
            if token in self._aside:
                del self._aside[token]
                part = await asyncio.to_thread(staging.adopt, token)
            else:
                part = await self._source.take(token, partial(staging.take, token))
            self._offered.pop(token, None)
            self._enter(part)
        elif self._offered.pop(token, 0) is None:
            await self._source.take(token, partial(staging.take, token, aside=True))
            now_s = asyncio.get_running_loop().time()
            await self._drop_aside([each for each, at_s in self._aside.items() if now_s - at_s > ASIDE_S_MAX])
            self._aside[token] = now_s

    def _enter(self, part: Part) -> None:
        staging = self._staging
        other = staging.find(part.sink, part.batch, part.name)
        if other is not None:  # of an attempt that was given up, when this replica was the primary
            staging.forget(other)
            asyncio.get_running_loop().run_in_executor(None, staging.remove, [other])
        staging.enter(part)
        self._lacking.pop(part.token, None)
        self._seen = None  # it may be stored, and so be over, since

    def _say(self, token: str, error: Exception) -> None:
        if token not in self._lacking:
            return
        self._problem = f"part {token} of a sink's batch can't be taken from the primary now: {error}"
        if not isinstance(error, LakemqError | OSError | BadPart | NoAnswer):
            logger.warning("%s", self._problem, exc_info=error)

    def degraded(self) -> list[str]:
        """What is wrong, in a line."""
        return [self._problem] if self._problem is not None and self._lacking else []
