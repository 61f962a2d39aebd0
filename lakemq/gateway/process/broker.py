"""One broker: the log, and what the gateway keeps in memory beside it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from lakemq.gateway.access.access import Access
from lakemq.gateway.access.audit import Audit
from lakemq.gateway.access.quotas import QuotaKeeper
from lakemq.gateway.access.users import Users
from lakemq.gateway.cold import ColdReader
from lakemq.gateway.cold.gaps import Gaps
from lakemq.gateway.decode import Limits
from lakemq.gateway.effects.traced_copies import CopySpans
from lakemq.gateway.fleet.confirmed_mark import ConfirmedMark
from lakemq.gateway.fleet.follower import Follower
from lakemq.gateway.fleet.open_leadership import open_leadership
from lakemq.gateway.fleet.part_source import PartSource
from lakemq.gateway.fleet.registrar import Registrar
from lakemq.gateway.fleet.replication import Replication
from lakemq.gateway.fleet.static_lead import StaticLead
from lakemq.gateway.fleet.tenure import Tenure
from lakemq.gateway.groups import Groups
from lakemq.gateway.redrive import Redriver
from lakemq.gateway.routes.leader_routes import Lead
from lakemq.gateway.routing.router import Router
from lakemq.gateway.sinks.committer import Sinks
from lakemq.gateway.sinks.followed_parts import FollowedParts
from lakemq.gateway.upkeep.dropping import Dropping
from lakemq.gateway.upkeep.erasures import Erasures
from lakemq.gateway.upkeep.log_cleanup import LogCleanup
from lakemq.gateway.upkeep.quarantine import Quarantine
from lakemq.gateway.work.work import Work
from lakemq.model.errors import LakemqError
from lakemq.model.in_sync import Record
from lakemq.settings import Settings
from lakemq.storage.backup.manifest import refuse_half_restored
from lakemq.storage.disk.clock import Clock, SystemClock, TrustedClock
from lakemq.storage.disk.files import Files
from lakemq.storage.disk.lock import DirectoryLock
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.log.followed_log import FollowedLog
from lakemq.storage.log.topic_changes import TopicChanges
from lakemq.storage.mend.erasure import Eraser, remove_scratch
from lakemq.storage.mend.replacing import Replacing
from lakemq.storage.read.idempotency import IdempotencyTable
from lakemq.storage.read.store import Store
from lakemq.web.asgi import Client

logger = logging.getLogger(__name__)


HOUSEKEEPING_S = 10.0
HOUSEKEEPING_FULL_S = 0.5
PRIMARY_S_MAX = 5.0
"""So long a follower that starts waits for its primary to say which erasures there are."""
EPOCHS_MAX = 256
"""So many of the newest a broker says: followers see by them where their logs go on otherwise."""


class Broker:
    """Everything behind the HTTP surface. Lives on one event loop."""

    def __init__(
        self,
        settings: Settings,
        files: Files | None = None,
        clock: Clock | None = None,
        tenure: Tenure | None = None,
        work: Work | None = None,
    ) -> None:
        """`tenure` None: as the settings say."""
        self.settings = settings
        self.tenure = tenure or Tenure(settings.broker.follows)
        self.name = settings.broker.name
        self.clock = TrustedClock(clock or SystemClock(), settings.routing.clock_confirm_ms)
        self.work = work or Work(settings.gateway)
        kind = FollowedLog if self.tenure.follows else CommitLog
        self.log = kind(settings.storage, files or Files(), self.clock)
        self.store = Store.of(self.log, self.name)
        self.reader, self.ids, self.secret_ids = self.store.reader, self.store.ids, self.store.secret_ids
        self.topics = TopicChanges(self.log, settings.topics, drained=settings.broker.permission == "r")
        is_audited = settings.auth.required if settings.auth.audit is None else settings.auth.audit
        writes = not self.tenure.follows
        self.audit = Audit(self.log, self.topics.system, self.clock, writes) if is_audited else None
        self.quotas = QuotaKeeper(settings.auth, settings.gateway.request_bytes_max, self.clock)
        required, users = settings.auth.required, lambda: self.log.state.access
        self.access = Access(required, users, self.clock, self.audit, self.quotas)
        self.cold = ColdReader(settings, self.store)
        self.log_cleanup = LogCleanup(settings, self.log, self.cold.run)
        self.replacing = Replacing(self.log, self.reader)
        self.quarantine = Quarantine(settings, self.log, self.reader, self.cold.history)
        self.idempotency = IdempotencyTable(settings.idempotency.window_ms, settings.idempotency.keys_max)
        self.gaps = Gaps()
        system, wait = self.topics.system, self.work.waiters.wait_within
        self.router = Router(settings, self.store, self.clock, system, wait)
        self.router.executor.read_cold = self.cold.parts
        self.dropping = Dropping(self.log, self.router.deliveries.clear_below, self.router.settle_lost)
        self.log.retention.on_segment(self.log_cleanup.look_again)
        self.redriver = Redriver(self.router.executor, self.cold)
        self.users = Users(self.log, system, settings.auth, self.clock)
        self.groups = Groups(settings.groups, self.store, self.cold, self.gaps, system, wait)
        limits = Limits.of(settings.gateway)
        self.sinks = Sinks(settings, self.log, self.log.files, limits, system, self.topics.writable)
        eraser = Eraser(self.log, self.reader, self.replacing)
        self.erasures = Erasures(self.store, eraser, settings.storage.data_dir, self._forget_erased)
        self.registrar = Registrar(settings, self.log, self.tenure.role)
        self.follower: Follower | None = None
        self.followed_parts: FollowedParts | None = None
        self.replication: Replication | None = None
        if isinstance(self.log, FollowedLog):
            self._follow(self.log)
        else:
            self.replication = Replication(settings, self.log, self.reader)
            self.sinks.offer = self.replication.offered_parts.offer
            record = None if self.tenure.elected is None else self.tenure.elected.record
            self.log.begins_epoch = None if record is None else record.epoch
        self.lead: Lead = StaticLead(self.replication)
        self._lock: DirectoryLock | None = None
        self._housekeeper: asyncio.Task[None] | None = None
        self.is_open = False

    def _follow(self, log: FollowedLog) -> None:
        follower = Follower(self.settings, log, self.reader, self.tell_compacted, self.tenure.elected)
        self.follower = follower
        follower.erased = lambda: self.erasures.done
        self.erasures.told = lambda: follower.told_erased
        parts = self.followed_parts = FollowedParts(
            log, self.sinks.staging, PartSource(self.settings, self.tenure.elected)
        )
        follower.durable, follower.on_parts = parts.durable, parts.offer
        log.on_epoch = lambda: self.ids.open(log.identity)

    async def prepare(self) -> None:
        """Have there be a log to open, of who follows a leader that is elected: for as long as it takes."""
        if self.follower is not None:
            await self.follower.prepare()

    def open(self) -> None:
        """Take the data directory and recover its log. Raises `LogInUse`, `LogDamaged`, `BadBackup`, `OSError`."""
        self.recover(asyncio.get_running_loop())
        self.keep_house()

    def recover(self, loop: asyncio.AbstractEventLoop) -> None:
        """`open` but for `keep_house`: on that loop, on which the broker is to live, or in a thread, while nobody else
        has anything of the broker but `leave`. Raises as `open` does."""
        directory = self.settings.storage.data_dir
        self.log.files.make_dirs(directory)
        refuse_half_restored(self.log.files, directory)
        self.log.files.tighten(directory, self.log.directory, self.sinks.staging.directory)
        elected = self.tenure.elected
        if elected is None:  # else the folder is held for all that take turns
            self._lock = DirectoryLock(self.log.files, directory, f"the lakemq gateway {self.name!r}")
        self.access.open(self.log.files, directory, self.settings.auth.admin_token_file)
        if self.follower is not None and elected is None:
            self.follower.begin()
        self.log.open(self.quarantine.mend, self.quarantine.put_off, loop=loop)
        if self.follower is not None:
            self.follower.opened()
        elif elected is not None and elected.record is not None:
            elected.incarnation.go_on()
        self.ids.open(self.log.identity)
        self.secret_ids.open(self.log.identity)
        remove_scratch(self.log.files, self.log.directory)
        self.quarantine.open()
        self.sinks.open(ConfirmedMark(self.log.files, directory).known(self.log.identity.log_id))
        self.erasures.open()
        self.quarantine.on_damage = partial(loop.call_soon_threadsafe, self.log_cleanup.look_again)
        self.reader.fallback = self.quarantine
        self.log.on_notes = self.idempotency.add
        self.idempotency.load(self.reader, self.log.retention.steady_ms)
        self.is_open = True

    def keep_house(self) -> None:
        """From now on what is over is tidied up, and what is damaged mended. On the broker's loop."""
        self.log.go_on_reserving()
        self._housekeeper = asyncio.get_running_loop().create_task(self._keep_house())

    async def start(self, record: Record | None = None) -> None:
        """Go on with what waits to be routed, and with the groups; a follower only follows. `record`: by which it
        leads, where that wasn't known before. Raises `LogDamaged`."""
        await self.erasures.finish()
        if self.follower is not None:
            self.groups.members.watch()
            self.erasures.follow()
            assert self.followed_parts is not None
            self.followed_parts.start()
            self.follower.start()
            await self.follower.has_asked(PRIMARY_S_MAX)
            return
        if self.replication is not None:
            log, elected = self.log, self.tenure.elected
            if elected is None:
                await self.replication.start(await open_leadership(self.settings, log.files, log.identity.log_id))
            else:
                await self.replication.start(elected.leadership, replace(elected, record=record or elected.record))
            self.replication.erased_by.begin(self.erasures.done)
        if self.audit is not None:
            await self.audit.begin()
        self.groups.start()
        await self.router.start(self.work.spans)
        self.redriver.start()
        if self.work.spans is not None:
            self.sinks.spans = CopySpans(self.work.spans, self.ids.of)
        self.sinks.start()

    def serve(self) -> None:
        """From now on requests are answered."""
        if self.replication is not None:
            self.replication.serve()

    def register(self, address: str) -> None:
        """Be known to name servers, and to the leader, as one that clients reach there, unless the settings say
        another address."""
        if self.follower is not None:
            self.follower.address = self.settings.gateway.advertise or address
        self.registrar.start(address)

    def depart(self) -> None:
        """Be ready no more, and have clients look for another broker; this one serves on."""
        self.work.leaving = True
        self.registrar.leave()

    def leave(self, stays: bool = False) -> None:
        """Answer who waits, and let clients look for another broker, unless it `stays`."""
        self.work.waiters.stop()
        if self.replication is not None:
            self.replication.leave()
        if not stays:
            self.registrar.leave()

    async def abandon(self) -> None:
        """Let go of what was never opened."""
        await self.registrar.close()
        if self.follower is not None:
            await self.follower.close()
        self.cold.close()
        self.work.close()
        self.unlock()

    async def close(self, stays: bool = False) -> None:
        """Bring everything to disk and let the directory go. `stays`: another broker takes its place here."""
        self.leave(stays)
        await (self.registrar.end() if stays else self.registrar.close())
        if self.follower is not None:
            if not stays:
                await self.follower.take_leave()
            await self.follower.close()
        if self.replication is not None:
            await self.replication.close()
        if self.followed_parts is not None:
            await self.followed_parts.close()
        await self.erasures.close()
        if self._housekeeper is not None:
            self._housekeeper.cancel()
        await self.groups.close()
        await self.redriver.close()
        await self.sinks.close()
        await self.router.close()
        self.cold.close()
        self.work.close()
        if self.audit is not None and self.replication is not None and self.replication.is_alone:
            self.audit.end()
        await self.log.close()
        if self.follower is not None:
            self.follower.end()
        elif self.tenure.elected is not None and self.log.flushed_position == self.log.next_position:
            with suppress(OSError):
                self.tenure.elected.incarnation.end(self.log.identity.log_id, self.log.next_position)
        self.unlock()

    def unlock(self) -> None:
        """Let the directory go, also when nothing was opened in it."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    async def _keep_house(self) -> None:
        look_after = partial(self.quarantine.look_after, self.replacing, self.cold.run)
        steps = [self.log_cleanup.clean_up, self.router.make_room, self.dropping.drop, look_after, self._forget_old]
        steps.append(self.erasures.go_on)
        if self.audit is not None:
            steps.append(self.audit.begin)
        if self.follower is not None:  # nothing moves on and nothing is dropped but by the primary
            steps = [self.log_cleanup.clean_up, look_after, self._forget_old]
        while True:
            await asyncio.sleep(HOUSEKEEPING_FULL_S)
            if not self.log.full:
                await self.log_cleanup.news(HOUSEKEEPING_S)
            for step in steps:
                try:
                    await step()
                except (OSError, LakemqError) as error:
                    logger.warning("housekeeping failed; retrying later: %s", error)

    async def _forget_erased(self) -> None:
        """What was read of messages that have been erased since."""
        try:
            if self.followed_parts is not None:
                await self.followed_parts.give_up_offered()
            await self.sinks.drop_copies()  # a replay may have read them, and not committed that
        finally:
            self.cold.forget()  # who erases from the log has done so in the lake, or will

    async def _forget_old(self) -> None:
        now_ms = self.log.retention.steady_ms
        self.idempotency.expire(now_ms)
        self.sinks.tidy(now_ms)
        self.reader.forget_unused()

    def tell_compacted(self, position: int) -> None:
        """The lake holds everything below."""
        self.log_cleanup.tell(position)

    async def degraded(self, client: Client = None) -> list[str]:
        """What is wrong while the broker takes and gives messages all the same, a line each. Raises `LogDamaged`,
        `Busy`."""
        overdue = {} if self.follower is not None else await self.router.overdue.count(client)
        found = [f"the job {name} is silent" for name in self.router.jobs.dead()]
        for part in (self.registrar, self.quarantine, self.log_cleanup, self.dropping, self.erasures, self.cold):
            found += part.degraded()
        if self.tenure.elected is not None:
            found += self.tenure.elected.degraded()
        if self.follower is not None:
            lacking = [] if self.followed_parts is None else self.followed_parts.degraded()
            return found + self.follower.degraded() + lacking
        if self.replication is not None:
            found += self.replication.degraded()
        found += [f"overdue: {count} of kind {kind}" for kind, count in overdue.items() if count]
        return found

    def positions(self) -> dict[str, int]:
        """How far the log is, in its several ways."""
        return {
            "min_position": self.log.min_position,
            "max_position": self.log.next_position,
            "flushed_position": self.log.flushed_position,
            "confirmed_position": self.log.confirmed_position,
            "compacted_position": self.log.compacted_position,
        }

    async def describe(self, client: Client = None) -> dict[str, Any]:
        """What `GET /v1/broker` says to everybody. Raises `LogDamaged`, `Busy`."""
        overdue, jobs = await self.router.overdue.count(client), await self.router.jobs.describe(client)
        log, positions = self.log, self.positions()
        epochs = log.identity.epochs[-EPOCHS_MAX:]
        identity = {"log_id": log.identity.log_id, "epoch": log.identity.now.epoch, "epochs": epochs}
        late = {"overdue": sum(overdue.values()), "overdue_by_kind": overdue}
        waits = {"jobs": jobs, **late}
        who = {"name": self.name, "role": self.tenure.role, "replica": self.settings.broker.replica}
        kept = self.follower or self.replication
        follows = {} if kept is None else kept.describe()
        erasures = self.erasures.done
        if self.replication is not None:
            erasures = min(erasures, self.replication.erased_by.answered)
        elected = {} if self.tenure.elected is None else {"election": self.tenure.elected.described()}
        described = {
            **who,
            "erasures": erasures,
            **follows,
            **elected,
            **identity,
            "positions": positions,
            **positions,
            **waits,
        }
        return {**described, "lake": self.log_cleanup.describe(), "steady_ms": log.retention.steady_ms}
