"""The in-sync set of a primary: hears its followers, changes the record, and says how far the log is confirmed."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import uuid4

from lakemq.gateway.fleet.confirmed_mark import ConfirmedMark, Mark
from lakemq.gateway.fleet.diverged import check_goes_on
from lakemq.gateway.fleet.erased_by import ErasedBy
from lakemq.gateway.fleet.leadership import Leadership
from lakemq.gateway.fleet.offered_parts import OfferedParts
from lakemq.gateway.fleet.shown import show_only_known
from lakemq.gateway.fleet.tenure import Elected
from lakemq.model.errors import (
    Fenced,
    InvalidRequest,
    LakemqError,
    NotConfirmed,
    NotEnoughReplicas,
    NotInSync,
    StoreUnwritable,
)
from lakemq.model.far_behind import Readable
from lakemq.model.in_sync import InSync, Member, Record, begun
from lakemq.settings import Settings
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.read.reader import Reader

logger = logging.getLogger(__name__)

TICKS = 10
"""So often within the time after which a member is let go it is looked at."""
QUESTIONS = 3
"""So often within that time a follower is answered, be there news or not."""
MARK_S = 1.0
FORGOTTEN_S_MAX = 20.0
"""So long it is waited until the record has forgotten a replica: clients wait longer for the answer."""
AGAIN_S = 0.02


class Where(NamedTuple):
    """Where clients reach a follower, empty if it isn't said, and with which position its log begins."""

    address: str = ""
    first_position: int = 0


class Question(NamedTuple):
    """Who asks for frames from `begin` on, where its log ends, and says how far it has that on its disk, in that epoch,
    and how many of its erasures it has carried out. `seen`: it goes by nobody who leads in an epoch before. `leaves`:
    it stops, and asks for nothing."""

    member: Member
    begin: int
    epoch: int
    durable: int
    erased: int = 0
    seen: int = 0
    leaves: bool = False
    where: Where = Where()


class Replication:
    """That of one broker's primary. Without followers it costs nothing and writes nothing."""

    def __init__(self, settings: Settings, log: CommitLog, reader: Reader) -> None:
        self._settings = settings.replication
        self._log = log
        self._reader = reader
        self._replica = settings.broker.replica
        self._mark = ConfirmedMark(log.files, settings.storage.data_dir)
        self._marked_s = 0.0
        self._told: dict[int, tuple[int, int]] = {}
        self._where: dict[int, tuple[Member, Where]] = {}
        """By replica, what its last incarnation said."""
        self._problem: str | None = None
        self._begun = asyncio.Event()
        """There has been a follower."""
        self._changed = asyncio.Event()
        """Another record is in force, or it isn't changed for now."""
        self._awake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._leaving = False
        self.erased_by = ErasedBy(settings.replication.silent_ms, lambda: self._in_sync.others)
        self._elected: Elected | None = None
        self._is_held = False
        self.is_replaced = False
        """Whether another leads in this one's place."""
        log.sync_always = settings.replication.ack == "sync"
        log.confirm_ms_max = settings.replication.confirm_ms_max
        self.offered_parts = OfferedParts(lambda: self._in_sync.others)
        self.erased_by.asked = self.offered_parts.asked = lambda: log.confirmed.asked.wake()

    async def start(self, leadership: Leadership, elected: Elected | None = None) -> None:
        """Begin with the record as it was left, or by which this one was `elected`, before anything is served. Raises
        `OSError`, `LogDamaged`."""
        log, loop = self._log, asyncio.get_running_loop()
        self._leadership, self._loop, self._looked_s = leadership, loop, loop.time()
        self._elected = elected
        record = await self._first_record(leadership) if elected is None else elected.record
        assert record is not None
        self._in_sync = InSync(record, self._settings.silent_ms, self._now_ms())
        self._look_at_size()
        if len(record.members) > 1:
            show_only_known(log, self._reader, self._mark, log.sync_always)
            self._begun.set()
        if elected is not None and not log.sync_always:
            log.lease = self._lease_lost

    async def _first_record(self, leadership: Leadership) -> Record:
        identity = self._log.identity
        held = await leadership.read()
        record = begun(held, Member(self._replica, uuid4().hex[:16]), identity.now.epoch, identity.log_id)
        if held is not None and not await leadership.compare_and_set(record):
            raise LakemqError("another replica has changed the leader and the replicas in sync")
        return record

    def _lease_lost(self) -> StoreUnwritable | None:
        """Why nothing may be promised now by what is written here alone, as under `async`. Where nobody else may lead
        that needs no lease. Who was replaced all the same, by order, promises nothing: a large frame may come out of
        the thread that writes it only now. What is confirmed `_replaced` ends, under either setting."""
        if self.is_replaced:
            return NotConfirmed("another leads; it is written here, and may be lost")
        return None if self._elected is None or self._in_sync.is_alone else self._elected.lost()

    async def first_frame(self, position: int) -> None:
        """Return once all below is confirmed. By then all is that any leader before has confirmed."""
        confirmed = self._log.confirmed
        while confirmed.position < position:
            confirmed.ask(position)
            waiter: asyncio.Future[None] = self._loop.create_future()
            confirmed.waiters.add(waiter)
            await waiter

    def serve(self) -> None:
        """From now on followers can be heard, and those that aren't are let go."""
        self._excuse()
        self._task = self._loop.create_task(self._run())

    def leave(self) -> None:
        """The gateway stops: followers can't be heard any more. Nobody is let go for that, and those who wait for
        others are told."""
        if self._task is not None:
            self._leaving = True
            self._awake.set()
            self._changed.set()
            if self._in_sync.bound() is not None:
                self._refuse()

    def _refuse(self) -> None:
        self._log.confirmed.refuse(NotConfirmed("the gateway stops; it is written, and may be confirmed later"))

    @property
    def is_alone(self) -> bool:
        """Whether it leads, and nobody else counts: what is written here needs nobody to confirm it."""
        return self._task is not None and self._in_sync.is_alone

    @property
    def epoch(self) -> int:
        """In which it leads; 0 where the settings say that it does, for good."""
        return 0 if self._elected is None else self._in_sync.record.epoch

    async def close(self) -> None:
        """Change nothing any more, and tell those who wait for others."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._leave_mark()
            self._refuse()
            if self._elected is None:  # else it is the election's too
                await self._leadership.close()

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)

    # Followers -------------------------------------------------------------------------------

    def hear(self, question: Question) -> bool:
        """A follower asks. Whether it may be sent what isn't confirmed: not if another has taken its place. Raises
        `Fenced` where it goes by a later leader, or may come to, and `EpochDiverged` where its log isn't the beginning
        of this one: it hasn't heard that another has led, and is to compare its history."""
        self._excuse()
        self.check_epoch(question.seen)
        log, (member, begin, epoch, durable, *_) = self._log, question
        if question.leaves:
            if self._in_sync.leave(member, epoch, begin):
                self.erased_by.leave(member)
                self._look()
            return False
        check_goes_on(log.identity.epochs, epoch, begin)
        counts = self._in_sync.hear(member, epoch, durable, log.flushed_position, self._now_ms())
        if counts:
            self._where[member.replica] = member, question.where
            self.erased_by.hear(member, question.erased)
            self._begun.set()
            self._look()
        return counts or self._in_sync.knows(member)

    def knows(self, member: Member) -> bool:
        """Whether it is a replica's current incarnation, as the record has it or it was heard."""
        return self._in_sync.knows(member)

    def check_epoch(self, seen: int) -> None:
        """Raise `Fenced` where a replica goes by a later leader: who leads is looked at then."""
        own = self._in_sync.record.epoch
        if self._elected is not None and (self.is_replaced or seen > own):
            self._elected.look()
            raise Fenced(f"epoch {own}, in which this leads, is over, or may be: the follower goes by {seen}")

    def _look(self) -> Record | None:
        """How far all is confirmed now; and what the record is to be next, if another."""
        self._excuse()
        log = self._log
        record = None
        if self.is_replaced:
            return None
        if not self._leaving and not (self._is_held and self._in_sync.proposed is None):
            record = self._in_sync.propose(log.flushed_position, log.confirmed_position, self._now_ms())
        log.confirmed.limit(self._in_sync.bound())
        if record is not None:
            self._awake.set()
        return record

    def _excuse(self) -> None:
        """Where this process stood still it heard nobody, and that is nobody's fault."""
        now_s = self._loop.time()
        gap_ms, self._looked_s = int((now_s - self._looked_s) * 1000), now_s
        if gap_ms > self._settings.silent_ms // 2:
            self._in_sync.excuse(gap_ms, self._now_ms())

    def has_news(self, question: Question) -> bool:
        """Whether more is confirmed than the follower was told, or others are in sync."""
        return self._now() != self._told.get(question.member.replica)

    def tell(self, question: Question) -> None:
        """The follower is told now how far the log is confirmed, and who is in sync."""
        self._told[question.member.replica] = self._now()

    def _now(self) -> tuple[int, int]:
        return self._log.confirmed_position, self._in_sync.record.version

    @property
    def wait_ms_max(self) -> int:
        """So long a follower's question may wait: it has to be heard of."""
        return self._settings.silent_ms // QUESTIONS

    # The record ------------------------------------------------------------------------------

    async def _run(self) -> None:
        await self._begun.wait()
        pause_s = min(self._settings.silent_ms / TICKS / 1000, MARK_S)  # however long nobody is let go
        while not self.is_replaced:
            self._awake.clear()
            try:
                await self._step()
                self._note(None)
                await self._rest(pause_s)
            except Exception as error:  # noqa: BLE001  such as no thread: it is tried again, and who waits goes on
                self._note(f"who is in sync can't be written down: {error!r}")
                await asyncio.sleep(pause_s)

    async def _step(self) -> None:
        """Look at all members, and change the record where it has to be."""
        record = self._look()
        if self._leaving and self._in_sync.bound() is not None:
            self._refuse()  # who came to wait since
        if record is not None:
            await self._change(record)
        if self._loop.time() - self._marked_s > MARK_S:
            self._marked_s = self._loop.time()
            self._leave_mark()

    async def _change(self, record: Record) -> None:
        try:
            await self._leadership.compare_and_set(record)
        finally:
            # Whatever became of it: what is in force is what is read.
            current = await self._leadership.read()
            if current is not None and current != self._in_sync.record:
                self._settle(current)

    def _settle(self, record: Record) -> None:
        before = self._in_sync.record
        if not self._in_sync.is_own(record):
            self._replaced(record)
            return
        self._in_sync.settle(record)
        self._changed.set()
        for member in set(before.members).difference(record.members):
            logger.warning("%s: record %d has %s", _missing(member.replica), record.version, record.replicas)
        for member in set(record.members).difference(before.members):
            logger.info("replica %d is in sync: record %d has %s", member.replica, record.version, record.replicas)
        self._look_at_size()
        self._look()
        self._log.confirmed.asked.wake()  # followers that wait are told

    def _replaced(self, record: Record) -> None:
        """Another leads: nothing is confirmed here any more, and nobody let go."""
        if self.is_replaced:
            return
        self.is_replaced = True
        logger.warning("replica %d leads now, in epoch %d", record.leader, record.epoch)
        # Who was alone has confirmed what it had on its own disk: that isn't enough any more.
        self._log.confirmed.limit(self._log.confirmed_position)
        self.leave()
        self._refuse()
        if self._elected is not None:
            self._elected.look()

    def _look_at_size(self) -> None:
        """Take no more where too few are in sync, and promise nothing of what is written. Answers say who is
        missing."""
        self._log.confirmed.missing = b",".join(b"%d" % each for each in self.missing)
        count, least, log = len(self._in_sync.record.members), self._settings.min_in_sync, self._log
        if count >= least:
            log.too_few = None
            return
        log.too_few = f"{count} of the broker's replicas are in sync, and replication.min_in_sync is {least}"
        log.confirmed.refuse(NotEnoughReplicas(f"{log.too_few}: what is written may be kept"))

    def _leave_mark(self) -> None:
        """Also alone, once there was a follower: what is confirmed without it is never to be cut for it."""
        if self._in_sync.bound() is not None or self._begun.is_set():
            log = self._log
            self._mark.leave(log.identity.log_id, Mark(log.confirmed_position, log.sync_always))

    async def _rest(self, seconds: float) -> None:
        """Until it is time for the next look, at once where something is to be changed, or was by another."""
        watching = self._loop.create_task(self._leadership.watch(self._in_sync.record.version, seconds))
        waking = self._loop.create_task(self._awake.wait())
        try:
            await asyncio.wait([watching, waking], return_when=asyncio.FIRST_COMPLETED)
            found = watching.result() if watching.done() else None
            if found is not None and found != self._in_sync.record:
                self._settle(found)
        finally:
            watching.cancel()
            waking.cancel()
            await asyncio.gather(watching, waking, return_exceptions=True)

    def _note(self, problem: str | None) -> None:
        if problem is not None and problem != self._problem:
            logger.error("%s", problem)
        self._problem = problem

    # Handing over ----------------------------------------------------------------------------

    def hold(self, is_held: bool) -> None:
        """Change nothing of who is in sync meanwhile, and let nobody go."""
        self._is_held = is_held
        self._changed.set()

    def in_sync_member(self, replica: int) -> Member:
        """That replica, which is in sync and heard of. Raises `NotInSync`."""
        member = next((each for each in self._in_sync.record.members if each.replica == replica), None)
        if member is None or not self._in_sync.knows(member):
            raise NotInSync(f"replica {replica} is not in sync: {self.in_sync} are")
        return member

    def heard_last(self) -> Member | None:
        """Who is in sync beside this one, and was heard of last; None: nobody is."""
        return self._in_sync.heard_last(self._now_ms())

    @property
    def record(self) -> Record:
        """The one in force, as far as it is known."""
        return self._in_sync.record

    async def until_all_have(self, end: int, seconds: float) -> Record:
        """The record in force, once all that are in sync have the log up to `end` on disk. Raises `NotInSync` where
        that takes longer, or the record is being changed."""
        try:
            async with asyncio.timeout(seconds):
                await self.first_frame(end)
                while self._in_sync.proposed is not None:
                    self._awake.set()
                    await asyncio.sleep(AGAIN_S)
        except TimeoutError:
            raise NotInSync("those in sync don't come to have all that is written; this one leads on") from None
        return self._in_sync.record

    def replaced(self, record: Record) -> None:
        """That record is in force, by which another leads."""
        self._replaced(record)

    async def remove(self, replica: int) -> dict[str, Any]:
        """Forget that the replica ever was in sync, as it won't be back; done when the record has it, so that every
        later leader has forgotten it too. Raises `InvalidRequest` where it leads, or is in sync: one that has ended is
        let go by itself. Raises `NotConfirmed` where the record can't be changed in time, and goes on trying."""
        if replica == self._replica:
            raise InvalidRequest(f"replica {replica} leads")
        self._check_is_gone(replica)
        self._told.pop(replica, None)
        if replica in self.missing:
            self._begun.set()  # the record is to forget one that was here before this process, too
        self._in_sync.forget(replica)
        self._look_at_size()
        self._look()
        await self._until_forgotten(replica)
        return {"removed": replica, "in_sync": self.in_sync}

    def _check_is_gone(self, replica: int) -> None:
        if replica in self.in_sync:
            raise InvalidRequest(f"replica {replica} is in sync; one that has ended isn't for longer than silent_ms")

    async def _until_forgotten(self, replica: int) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(min(self._settings.confirm_ms_max / 1000, FORGOTTEN_S_MAX)):
                while replica in self._in_sync.record.missing and not (self._leaving or self._is_held):
                    self._changed.clear()
                    await self._changed.wait()
        self._check_is_gone(replica)  # it may have come back meanwhile
        if replica in self._in_sync.record.missing:
            why = self._problem or "it is being changed"
            raise NotConfirmed(f"replica {replica} is forgotten here, and the record doesn't have that yet: {why}")

    # What is said ----------------------------------------------------------------------------

    @property
    def in_sync(self) -> list[int]:
        """The replicas that are."""
        return self._in_sync.record.replicas

    @property
    def missing(self) -> list[int]:
        """The replicas that were in sync, also under another leader or before a start, and may come back."""
        return self._in_sync.missing

    def readable(self) -> list[Readable]:
        """The followers in sync at which clients may read what they have."""
        members = self._in_sync.record.members
        return [
            Readable(where.address, where.first_position, self._in_sync.durable(member))
            for member, where in self._where.values()
            if where.address and member in members and not self.is_replaced
        ]

    def degraded(self) -> list[str]:
        """What is wrong, a line each."""
        found = [] if self._log.too_few is None else [f"nothing is written: {self._log.too_few}"]
        return [*found, *map(_missing, self.missing), *([] if self._problem is None else [self._problem])]

    def describe(self) -> dict[str, Any]:
        """What `GET /v1/broker` says of it."""
        limits, record = self._settings, self._in_sync.record
        replication = {"ack": limits.ack, "min_in_sync": limits.min_in_sync, "record_version": record.version}
        return {"in_sync": record.replicas, "missing": self.missing, "replication": replication}


def _missing(replica: int) -> str:
    return f"replica {replica} is no longer in sync"
