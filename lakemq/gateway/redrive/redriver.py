"""All redrives of one broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from pyroaring import BitMap64

from lakemq.gateway.cold import ColdReader
from lakemq.gateway.effects.executor import Executor
from lakemq.gateway.redrive.dead_letters import find_dead_letters, find_record
from lakemq.gateway.redrive.progress import Progress
from lakemq.gateway.redrive.records import Redrive, copies_of, redrive_of
from lakemq.gateway.redrive.run import Run, again_while
from lakemq.model.errors import (
    Busy,
    FlowControl,
    LakeUnreadable,
    RedriveNotFound,
)
from lakemq.model.names import REDRIVE_TOPIC, dead_letter_topic
from lakemq.storage.segment.rows import Row, make_row
from lakemq.web.room import Room

logger = logging.getLogger(__name__)

OPEN_MAX = 16
GROUP_OPEN_MAX = 4
USER_OPEN_MAX = 12
"""So many of one group, and of one user as long as the process runs: a slow one may take days, and others have room
meanwhile."""
SEARCHES_MAX = 2
"""At a time: each takes a thread, and pulls need some too."""


class Redriver:
    """Begins redrives, carries them through, and says how they are. `start` once the log is open."""

    def __init__(self, executor: Executor, cold: ColdReader) -> None:
        self._executor = executor
        self._cold = cold
        self._runs: dict[int, Run] = {}
        self._stopped = BitMap64()
        """The redrives that this process goes on with no more: they take no place, and the next one goes on."""
        self._tasks: set[asyncio.Task[None]] = set()
        self._beginning = 0
        self._of_group, self._of_user = Room(OPEN_MAX, GROUP_OPEN_MAX), Room(OPEN_MAX, USER_OPEN_MAX)

    def start(self) -> None:
        """Go on with the redrives that the log says aren't done."""
        for position in self._executor.state.redrives:
            self._spawn(position, None)

    async def close(self) -> None:
        """Redrive no more; the next process goes on."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Beginning -------------------------------------------------------------------------------

    async def begin(
        self, group: str, where: str | None, rate_per_s: float, dry_run: bool, user: str = ""
    ) -> tuple[str, int, int]:
        """Redrive the group's dead letters that satisfy `where`; returns the redrive's id, how many they
        are, and how many letters of the group are neither in the log nor in the lake any more. Who asked is told when
        it is confirmed that they will be redriven. A dry run only says which.

        Raises `InvalidFilter`, `InvalidRequest`, `FlowControl`, `Busy`, `StoreUnwritable`,
        `LogDamaged`, `LakeUnreadable`.
        """
        if self._beginning >= SEARCHES_MAX:
            raise Busy(f"{SEARCHES_MAX} redrives are looking for dead letters already")
        if not dry_run and len(self._executor.state.redrives - self._stopped) + self._beginning >= OPEN_MAX:
            raise FlowControl(f"{OPEN_MAX} redrives go on already")
        self._beginning += 1
        try:
            with ExitStack() as places:
                if not dry_run:
                    too_many = FlowControl(f"{GROUP_OPEN_MAX} redrives of group {group} go on already")
                    places.enter_context(self._of_group.place(group, refusal=too_many))
                    too_many = FlowControl(f"{USER_OPEN_MAX} redrives of this user go on already")
                    places.enter_context(self._of_user.place(user, refusal=too_many))
                return await self._begin(group, where, rate_per_s, dry_run, user)
        finally:
            self._beginning -= 1

    async def _begin(
        self, group: str, where: str | None, rate_per_s: float, dry_run: bool, user: str
    ) -> tuple[str, int, int]:
        since = self._executor.log.next_position
        matched, gone = await find_dead_letters(self._executor, self._cold, group, where)
        redrive = Redrive(group, where, rate_per_s, since, matched, dry_run)
        position = await self._record(redrive)
        if not dry_run:
            self._of_group.take(group)
            self._of_user.take(user)
            self._spawn(position, redrive, user)
        return self._executor.message_id(position), len(matched), gone

    async def _record(self, redrive: Redrive) -> int:
        topic = await self._executor.ensure_topic(REDRIVE_TOPIC)
        (placed,) = await self._executor.execute([(None, redrive.to_row(), topic.queues[0])])
        assert placed is not None
        return placed.position

    def _spawn(self, position: int, redrive: Redrive | None, user: str | None = None) -> None:
        """`redrive` None: it was begun by a process before, by nobody knows whom. Else it has its places."""
        task = asyncio.get_running_loop().create_task(self._carry_or_stop(position, redrive, user))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_or_stop(self, position: int, redrive: Redrive | None, user: str | None) -> None:
        try:
            await self._carry_through(position, redrive)
        except Exception:
            logger.exception("the redrive at %d has stopped, and continues after a restart", position)
            self._stopped.add(position)
        finally:
            if user is not None:
                self._of_user.leave(user)

    async def _carry_through(self, position: int, redrive: Redrive | None) -> None:
        try:
            if redrive is None:
                redrive = await self._read_once_there(position)
                self._of_group.take(redrive.group)
            run = self._runs[position] = Run(self._executor, self._cold, position, Progress(redrive))
            await run.run()
        except RedriveNotFound:
            logger.error("the redrive at %d was lost to damage of the log; its dead letters wait", position)  # noqa: TRY400
            topic = await self._executor.ensure_topic(REDRIVE_TOPIC)
            await self._executor.execute([(position, make_row(body=b"", cause=position), topic.queues[0])])
        finally:
            self._runs.pop(position, None)
            if redrive is not None:
                self._of_group.leave(redrive.group)

    # Looking up ------------------------------------------------------------------------------

    async def describe(
        self, redrive_id: str, offset: int, results_max: int, check: Callable[[str, bool], None]
    ) -> dict[str, Any]:
        """How a redrive is, with its results from `offset` on: `running`, `stopped` by an error until the next start,
        `done`, or a `dry_run`. `check` may refuse that of its group, and is told whether its letters were deleted with
        that since. Raises `RedriveNotFound`, `LogDamaged`."""
        position = self._position(redrive_id)
        run = self._runs.get(position)
        if run is not None:
            progress, state = run.progress, "running"
        else:
            progress, state = await self._look_up(position)
        letters = dead_letter_topic(progress.redrive.group)
        is_there = self._executor.log.topics.find_for(letters, position) is not None
        check(progress.redrive.group, bool(progress.redrive.matched) and not is_there)
        shown = progress.describe(state, offset, results_max, self._executor.message_id)
        return {"redrive_id": redrive_id, **shown}

    def _position(self, redrive_id: str) -> int:
        position = self._executor.ids.find(redrive_id)
        if position is None:
            raise RedriveNotFound(f"{redrive_id[:200]!r} is no redrive of this broker's log")
        return position

    async def _look_up(self, position: int) -> tuple[Progress, str]:
        redrive = await self._read(position)
        if redrive.dry_run:
            return Progress(redrive), "dry_run"
        if position in self._executor.state.redrives:
            return Progress(redrive), "stopped" if position in self._stopped else "running"
        queue = self._executor.log.topics.queue(REDRIVE_TOPIC, 0)
        done = await find_record(self._executor, self._cold, queue, position)
        row = None if done is None else await self._row(done)
        if row is None:
            raise RedriveNotFound(f"what came of the redrive at {position} was lost to damage of the log")
        return Progress(redrive, copies_of(row)), "done"

    async def _read_once_there(self, position: int) -> Redrive:
        """`_read`, waiting for a lake that is away."""
        return await again_while(partial(self._read, position), lambda error: isinstance(error, LakeUnreadable))

    async def _read(self, position: int) -> Redrive:
        row = await self._row(position)
        if row is None:
            raise RedriveNotFound(f"there is no redrive {self._executor.message_id(position)!r}")
        return redrive_of(row)

    async def _row(self, position: int) -> Row | None:
        """The row at `position` of the log, if it is one of `REDRIVE_TOPIC`."""
        part = await self._executor.read_one(position)
        if part is None or part.run_of(part.numbers[0]).topic != REDRIVE_TOPIC:
            return None
        return part.row(part.numbers[0])
