"""Follows the primary's log: asks for what comes next, and keeps it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from lakemq.gateway.fleet.agreement import Parted, agree, check_history
from lakemq.gateway.fleet.asking_thread import AskingThread
from lakemq.gateway.fleet.confirmed_mark import ConfirmedMark, Mark
from lakemq.gateway.fleet.cut_said import described, summary
from lakemq.gateway.fleet.incarnation import Incarnation
from lakemq.gateway.fleet.primary import Answered, Greeting, Own, Primary, Said, begin_log
from lakemq.gateway.fleet.shown import show_only_known
from lakemq.gateway.fleet.tenure import Elected
from lakemq.model.agreement import History
from lakemq.model.errors import Fenced, LakemqError, NotLeader, StoreUnwritable
from lakemq.model.far_behind import Readable
from lakemq.model.given import may_show_all
from lakemq.settings import Settings
from lakemq.storage.log.cutting import Cut
from lakemq.storage.log.followed_log import FollowedLog
from lakemq.storage.log.next_frames import Diverged, Page
from lakemq.storage.log.positions import forget_confirming, note_confirming, note_given
from lakemq.storage.log.recovery import list_segments
from lakemq.storage.mend.truncate import CutRefused
from lakemq.storage.read.hiding import hide_from
from lakemq.storage.read.reader import Reader
from lakemq.storage.segment.frame import LogEpoch
from lakemq.wire.connections import NoAnswer

logger = logging.getLogger(__name__)

BEGIN_S_MAX = 60.0
"""So long an empty follower waits for its primary as it starts."""
GREET_S = 10.0
"""So often it asks the primary what it is."""
WAIT_MS_MAX = 15_000
BYTES_MAX = 4 * 1024 * 1024
PACE_S = 0.02
"""Small answers don't come faster: each has the primary bring its log to disk."""
LEAVE_S = 5.0
"""So long it tries to tell the primary that it stops."""
AGAIN_S, AGAIN_S_MAX = 0.1, 1.0
"""A primary that is back lets go whom it hasn't heard of for `replication.silent_ms`."""


class _NotApplied(Exception):
    """What was written may not be applied: a start does both again, or says what is wrong."""


class Follower:
    """That of one broker. Lives on the event loop; what waits for the primary is a thread."""

    def __init__(
        self,
        settings: Settings,
        log: FollowedLog,
        reader: Reader,
        tell_compacted: Callable[[int], None],
        elected: Elected | None = None,
    ) -> None:
        """`tell_compacted` hears which position the primary was told to be compacted."""
        self._log = log
        self._reader = reader
        self._settings = settings
        self._replica = settings.broker.replica
        self._elected = elected
        directory = settings.storage.data_dir
        self._incarnation = Incarnation(log.files, directory) if elected is None else elected.incarnation
        self._mark = ConfirmedMark(log.files, settings.storage.data_dir)
        log.confirm_ms_max = settings.replication.confirm_ms_max
        self._primary = Primary(settings, elected)
        self._thread = AskingThread("follower")
        log.leader = self._primary.address
        self._tell_compacted = tell_compacted
        # The primary's own bound is taken to be the same.
        self._silent_s = settings.replication.silent_ms / 1000
        self._wait_ms = min(WAIT_MS_MAX, settings.gateway.wait_ms_max)
        if settings.replication.far_behind_bytes:  # then it has to know soon that it isn't heard
            self._wait_ms = min(self._wait_ms, settings.replication.silent_ms // 3)
        self._flush_ms = settings.storage.flush_interval_ms + 20  # by then what is written is on disk
        self._said: Said | None = None
        self._heard_s = 0.0
        self._compacted = self._told = 0
        self._confirming: LogEpoch | None = None
        """What was noted last of who tells nobody of what isn't confirmed."""
        self._task: asyncio.Task[None] | None = None
        self.durable: Callable[[], int] = lambda: log.flushed_position
        """How far the log, and all that it needs beside it, is on disk here."""
        self.on_parts: Callable[[tuple[str, ...]], object] = lambda tokens: None
        """Called with parts of sinks that the primary is about to commit."""
        self.erased: Callable[[], int] = lambda: 0
        """How many of the log's erasures are carried out here."""
        self.address = ""
        """Where clients reach it; empty: not known yet."""
        self.told_erased = 0
        """How many the primary says have to be before a message is shown."""
        self._asked = asyncio.Event()
        """The primary was asked, or can't be."""
        self.fault: str | None = None
        """Why it follows no more."""
        self.problem: str | None = None
        """Why it can't follow just now."""
        self.cut: Cut | None = None
        """What was cut off the log as this one began, as the primary lacks it."""
        self.floor = 0
        """Nothing of the log below may be cut, beside what it knows by itself: to be set before `begin`."""
        self.on_diverged: Callable[[str], object] | None = None
        """Called, with the reason, when it follows no more as the primary's log is the same one with another history:
        where this is begun anew, on the closed log, it cuts what the primary lacks."""

    def begin(self) -> None:
        """See that there is a log, before it is opened, in any thread: an empty one begins as the primary's does, and
        of another what the primary lacks is cut, if that can be asked; where it may not be cut it is opened as it is,
        and not followed. Raises `OSError`, and `LakemqError` where there is no log and the primary can't be reached."""
        files, directory = self._log.files, self._log.directory
        files.make_dirs(directory)
        if list_segments(files, directory):
            self._agree()
            return
        end_s = time.monotonic() + BEGIN_S_MAX
        while True:
            try:
                begin_log(self._primary, files, directory)
            except (NoAnswer, LakemqError) as error:
                if time.monotonic() > end_s:
                    raise LakemqError(
                        f"this follower has nothing yet, and its primary can't be asked: {error}"
                    ) from None
                self._note(str(error))
                time.sleep(AGAIN_S)
            else:
                self._note(None)
                return

    async def _until_known(self) -> None:
        """Wait a while for who leads, if anybody does, to say where it is: for this one, and for who asks this one."""
        assert self._elected is not None
        for _ in range(int(self._settings.fleet.lease_ms / 1000 / PACE_S)):
            if self._elected.where() or "leader" not in self._elected.described():
                break
            await asyncio.sleep(PACE_S)
        self._log.leader = self._elected.where()

    async def prepare(self) -> None:
        """`begin`, for as long as it takes, of who is told whom to ask."""
        files, directory = self._log.files, self._log.directory
        files.make_dirs(directory)
        await self._until_known()
        while not list_segments(files, directory):
            self._incarnation.forget()  # before there is anything that it could be taken for
            try:
                await self._thread.ask(partial(begin_log, self._primary, files, directory))
            except (NoAnswer, LakemqError) as error:
                self._note(str(error))
                await asyncio.sleep(AGAIN_S)
        await self._thread.ask(self._agree)

    def _agree(self) -> None:
        try:
            self.cut = agree(self._primary, self._log.files, self._settings, self.floor)
        except (NoAnswer, LakemqError) as error:  # a log that can't be read says so as it is opened
            self._note(str(error))
        except (Diverged, CutRefused, OSError) as error:
            self._stop(str(error))
        else:
            self._note(None)

    def opened(self) -> None:
        """The log is open: what isn't known to be confirmed is not shown. Raises `OSError`."""
        log = self._log
        known = show_only_known(log, self._reader, self._mark)
        if known > log.next_position:
            self._incarnation.forget()
        self._incarnation.begin(log.identity.log_id, log.next_position)

    def end(self) -> None:
        """The log is closed, after `close`. What is on disk goes on from here only if all of it is, and nobody has
        taken this one's place: then a start comes as another."""
        log = self._log
        if self._is_replaced or log.flusher.failure is not None or log.flushed_position < log.next_position:
            return
        with suppress(OSError):
            self._incarnation.end(log.identity.log_id, log.next_position)

    def start(self) -> None:
        """Begin to follow, unless it can't be."""
        if self.fault is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        else:
            self._asked.set()

    async def has_asked(self, seconds: float) -> None:
        """Wait until the primary has been asked what there is, so many seconds at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._asked.wait()

    async def pause(self) -> None:
        """Follow no more until `start`: nothing is said of this disk from now on, and what has come is written."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def turn(self) -> None:
        """Another leads: let go of whom it asks now, who may not answer for long, and ask that one."""
        await self.pause()
        self._thread.close(self._primary.close)
        self._thread = AskingThread("follower")
        self._primary = Primary(self._settings, self._elected)
        self._said = None
        self.fault = None
        self.start()

    async def take_leave(self) -> None:
        """It stops: follow no more, and tell the primary, so that no write there waits for this one. Where that can't
        be told, it is found silent."""
        await self.pause()
        if self._said is None or self._is_replaced:
            return
        log, thread = self._log, AskingThread("leaving")
        leave = partial(self._primary.leave, log.next_position, log.identity.now.epoch, self._own())
        try:
            async with asyncio.timeout(LEAVE_S):
                await thread.ask(leave)
        except Exception as error:  # noqa: BLE001  such as no thread, or nobody there: it goes without
            logger.info("could not tell the primary that this follower stops: %r", error)
        thread.close()

    async def close(self) -> None:
        """Follow no more. What has come is written; what is on its way is not."""
        await self.pause()
        self._leave_mark()
        self._thread.close(self._primary.close)

    # Following -------------------------------------------------------------------------------

    async def _run(self) -> None:
        pause_s = AGAIN_S
        while True:
            try:
                await self._follow()
                pause_s = AGAIN_S
                continue
            except Diverged as error:
                if await self._is_over(error):
                    return
            except (NoAnswer, LakemqError) as error:
                self._note(str(error))
                if isinstance(error, Fenced | NotLeader) and self._elected is not None:
                    self._elected.look()
            except _NotApplied as error:
                logger.exception("a frame could not be applied")
                self._stop(f"a frame could not be applied: {error.__cause__!r}")
                return
            except Exception as error:  # such as no thread, or no memory: nothing was taken
                if repr(error) != self.problem:
                    logger.exception("could not ask the primary")
                self._note(repr(error))
            self._leave_mark()
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, AGAIN_S_MAX)

    async def _follow(self) -> None:
        """Follow for a while."""
        loop, log = asyncio.get_running_loop(), self._log
        try:
            found = await self._thread.ask(self._primary.greet)
            self.told_erased = max(self.told_erased, found.erasures)
        finally:
            log.leader = self._primary.address
            self._asked.set()
        self._check(found)
        if found.epoch > log.identity.now.epoch:
            given = LogEpoch(log.identity.now.log_id, found.epoch), found.max_position
            await self._thread.ask(partial(note_given, log.files, log.directory, *given))
        self._compacted = found.compacted_position
        self._tell()
        until_s = loop.time() + GREET_S
        while loop.time() < until_s:
            begun_s = loop.time()
            answered = await self._ask()
            if answered.page.fault is not None:
                self._note(answered.page.fault)
                await self._thread.ask(partial(self._primary.look_at, log.next_position))
                raise LakemqError(answered.page.fault)  # it was on its way, or it is mended
            self._note(None)
            if not await self._hurry(answered) and answered.size < BYTES_MAX // 2:
                await asyncio.sleep(begun_s + PACE_S - loop.time())
        self._leave_mark()

    def _check(self, found: Greeting) -> None:
        """Raise `Diverged` unless this log goes on as the primary's does."""
        identity = self._log.identity
        check_history(identity.log_id, History(tuple(identity.epochs), self._log.next_position), found)

    async def _is_over(self, error: Diverged) -> bool:
        """Follow no more, and say why. False where the primary can't be asked what its history is."""
        try:
            self._check(await self._thread.ask(self._primary.greet))
        except Diverged as why:
            error = why
        except Exception as why:  # noqa: BLE001  such as no thread: it is asked again
            self._note(str(why))
            return False
        self._stop(str(error))
        if isinstance(error, Parted) and self.on_diverged is not None:
            self.on_diverged(str(error))
        return True

    async def _ask(self) -> Answered:
        """One answer, of which what is sound is kept."""
        log, own, position = self._log, self._own(), self._log.next_position
        wait_ms = self._wait_ms if own.durable >= position else min(self._wait_ms, self._flush_ms)
        ask = partial(self._primary.frames, position, log.identity.now, log.identity.log_id, own, wait_ms, BYTES_MAX)
        answered = await self._thread.ask(ask)
        self._hear(answered.said)
        taking = asyncio.ensure_future(self._take(answered.page))
        try:
            await asyncio.shield(taking)
        except asyncio.CancelledError:
            await asyncio.wait([taking])  # a segment that was half begun would be nobody's
            raise
        self._tell()
        await self._note_confirming(answered.said)
        return answered

    def _own(self) -> Own:
        seen = 0 if self._elected is None else self._incarnation.highest
        own = Own(self._replica, self._incarnation.name, self.durable(), self.erased(), seen)
        return own._replace(address=self.address, first=self._log.min_position)

    async def _note_confirming(self, said: Said) -> None:
        """Before anything more is asked for, and so before this one counts in that epoch: where it takes this leader's
        place it has to know. Raises `OSError`: then it asks again all the same, counts, and tries again with each
        answer; if it takes that place without, it only passes over more positions than it has to."""
        log, now = self._log, self._log.identity.now
        if self._elected is not None and said.sync and said.epoch == now.epoch and now != self._confirming:
            noting = asyncio.ensure_future(self._thread.ask(partial(note_confirming, log.files, log.directory, now)))
            try:
                await asyncio.shield(noting)
            except asyncio.CancelledError:
                await asyncio.wait([noting])  # else it might come after `forget`, and undo that
                raise
            self._confirming = now

    async def forget(self) -> None:
        """This one, which follows no more, is to lead though it may lack what is confirmed. On disk on return; raises
        `OSError`."""
        self._confirming = None
        await asyncio.to_thread(forget_confirming, self._log.files, self._log.directory)

    def _hear(self, said: Said) -> None:
        """Before what comes with it is taken: where it isn't to be seen yet, it never is."""
        log, before, self._said = self._log, self._said, said
        self._heard_s = asyncio.get_running_loop().time()
        confirmed = said.confirmed_position
        hides = said.sync if self._elected is None else not may_show_all(said.sync, self._first_of(said), confirmed)
        changes = hides != log.sync_always
        if changes:
            self._show_only_confirmed(hides)
        self.told_erased = max(self.told_erased, said.erased)
        if said.parts:
            self.on_parts(said.parts)
        log.confirmed.limit(confirmed)
        if before is None or changes:
            self._leave_mark()

    def _first_of(self, said: Said) -> int | None:
        """The first position of the epoch in which the primary leads; None: this log isn't in that one."""
        epoch, first_position = self._log.identity.epochs[-1]
        return first_position if epoch == said.epoch else None

    async def _hurry(self, answered: Answered) -> bool:
        """Bring what was taken to disk at once, if somebody at the primary waits for it; whether that is so. Who isn't
        in sync has to catch up first."""
        log, said = self._log, answered.said
        is_member = self._replica in said.in_sync
        if said.awaited_position <= answered.durable:
            if said.counted and not is_member and answered.size < BYTES_MAX // 2:
                await log.flushed()  # who has nearly all comes to be in sync by what is on its disk
            return False
        if is_member or answered.size < BYTES_MAX // 2:
            await log.flushed()
            return self.durable() > answered.durable  # else something is lacking beside the log
        return False

    def _leave_mark(self) -> None:
        """What a start may show before it has heard of the primary."""
        if self._said is not None:
            self._mark.leave(self._log.identity.log_id, Mark(self._log.confirmed_position, self._log.sync_always))

    def _show_only_confirmed(self, is_so: bool) -> None:
        log = self._log
        log.sync_always = is_so
        if is_so:
            hide_from(log, self._reader, log.confirmed_position)
        else:
            log.confirmed.show_all()

    async def _take(self, page: Page) -> None:
        try:
            await self._log.take(page.frames)
        except StoreUnwritable:
            raise
        except Exception as error:
            raise _NotApplied from error

    def _tell(self) -> None:
        """What of this log is compacted, as far as the primary knows."""
        told = min(self._compacted, self._log.next_position)
        if told > self._told:
            self._told = told
            self._tell_compacted(told)

    def _stop(self, why: str) -> None:
        self.fault = why
        logger.error("no longer following the primary %s: %s", self._primary.address, why)

    def _note(self, problem: str | None) -> None:
        if problem is not None and problem != self.problem:
            logger.warning("can't follow the primary now: %s", problem)
        elif problem is None and self.problem is not None:
            logger.info("following the primary %s again", self._primary.address)
        self.problem = problem

    # What is said ----------------------------------------------------------------------------

    @property
    def unwritable(self) -> str | None:
        """Why its log takes nothing now."""
        return self._log.unwritable

    @property
    def epoch(self) -> int:
        """The one that its log ends with."""
        return self._log.identity.now.epoch

    @property
    def _is_replaced(self) -> bool:
        return self._said is not None and not self._said.counted

    @property
    def lag(self) -> int | None:
        """How many positions the primary had beyond this log's end when it was last heard; None: it never was."""
        return None if self._said is None else max(self._said.end_position - self._log.next_position, 0)

    def readable(self) -> list[Readable]:
        """This one, for who is far behind; none where it may lack what was done since, as an erasure."""
        said, is_heard = self._said, asyncio.get_running_loop().time() - self._heard_s < self._silent_s
        if not is_heard or self.fault or said is None or not said.counted or self._replica not in said.in_sync:
            return []
        return [Readable(self.address, self._log.min_position, self._log.next_position)]

    def degraded(self) -> list[str]:
        """Why it isn't followed, in a line."""
        found = [] if self.cut is None else [described(self.cut)]
        if self.fault is not None:
            return [*found, f"this follower has stopped following, and serves what it has: {self.fault}"]
        found += [] if self.problem is None else [f"the primary can't be followed now: {self.problem}"]
        if self._is_replaced:
            found.append(f"another one has come as replica {self._replica}: this one is in sync only after a start")
        return found

    def describe(self) -> dict[str, Any]:
        """What `GET /v1/broker` says of it."""
        return {
            "primary": self._primary.address or None,
            "follower_lag": self.lag,
            "follower_fault": self.fault or self.problem,
            "follower_cut": None if self.cut is None else summary(self.cut),
            "in_sync": [] if self._said is None else list(self._said.in_sync),
        }
