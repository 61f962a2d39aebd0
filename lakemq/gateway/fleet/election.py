"""Who leads a broker whose leader is elected, as one of its replicas finds it, brings it about, or gives it up.

It outlives the brokers that take turns in its process. docs/fleet.md, "The switch", has the protocol.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from lakemq.gateway.fleet.followed import Following
from lakemq.gateway.fleet.incarnation import Incarnation
from lakemq.gateway.fleet.leadership import Leadership, Superseded
from lakemq.gateway.fleet.lookout import Lookout, leads_in
from lakemq.gateway.fleet.tenure import Elected, Tenure
from lakemq.model.beat import Beat
from lakemq.model.election import (
    Lease,
    Own,
    Seal,
    Standing,
    delay_ms,
    elected,
    forced,
    serves_from_ms,
    standing_of,
    switched,
)
from lakemq.model.errors import LakemqError, LeaderLives, LogDamaged, NotConfirmed, NotInSync, StoreUnwritable
from lakemq.model.in_sync import Member, Record
from lakemq.settings import Settings
from lakemq.storage.state.log_identity import LogIdentity

logger = logging.getLogger(__name__)

BEATS = 3
"""So often within a lease the leader says that it lives."""
HEARD_S = 0.02
FORCED_LEASES = 2
"""Nobody leads by order while a leader was heard of so many leases ago: a member would have taken its place by then."""
YIELDED_LEASES = 3
"""So many leases a leader that could not open its log waits for another to take its place, before it tries again."""


T = TypeVar("T")


class Election:
    """That of one replica. Lives on the loop."""

    def __init__(
        self,
        settings: Settings,
        leadership: Leadership,
        incarnation: Incarnation,
        address: str,
        elsewhere: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`address`: where clients and other replicas ask this one. `elsewhere`: why no first record may be begun here;
        a thread calls it."""
        self._elsewhere = elsewhere
        self._replica = settings.broker.replica
        self._lease_ms = settings.fleet.lease_ms
        self._address = address
        self._leadership = leadership
        self._incarnation = incarnation
        self._loop = asyncio.get_running_loop()
        self._lookout = Lookout(leadership, self._lease_ms)
        self._lease = Lease(self._lease_ms)
        self.alone_ms = 0
        """From when on the leader before has no lease any more."""
        self._replaced: asyncio.Future[None] | None = None
        self._beating: asyncio.Task[None] | None = None
        self._is_to_begin_anew = False
        self._order: asyncio.Future[Record] | None = None

    # What others need to know ----------------------------------------------------------------

    @property
    def record(self) -> Record | None:
        """The last that is known to have been in force."""
        return self._lookout.record

    @property
    def problem(self) -> str | None:
        """Why nobody is led or followed just now, or not surely."""
        return self._lookout.problem

    def where(self) -> str:
        """The leader's address; empty: it isn't known."""
        return self._lookout.where()

    def leads_no_more(self) -> bool:
        """Whether another replica leads by the record."""
        return self.record is not None and self.record.leader != self._replica

    def look(self) -> None:
        """Look at once who leads: it may be another."""
        self._lookout.wake()

    def lost(self) -> StoreUnwritable | None:
        """Why a leader may promise nothing now."""
        if self._lease.holds(self._lookout.now_ms()):
            return None
        return NotConfirmed("another replica may lead by now, because this one could not reach the store for too long")

    def described(self) -> dict[str, Any]:
        """What `GET /v1/broker` says of it."""
        record = self.record
        known = {} if record is None else {"leader": record.leader, "leader_epoch": record.epoch}
        return {**known, "leader_address": self.where() or None}

    def degraded(self) -> list[str]:
        """What is wrong, a line each."""
        return [] if self.problem is None else [self.problem]

    def _tenure(self, record: Record | None, follows: bool) -> Tenure:
        asked = self.where, self.lost, self.look, self.described, self.degraded
        return Tenure(follows, Elected(self._leadership, self._incarnation, *asked, record))

    # Beginning -------------------------------------------------------------------------------

    async def first(self) -> Tenure:
        """As what this replica begins, once that is known."""
        has_failed = self._incarnation.is_opening
        while True:
            if await self._lookout.look():
                standing = standing_of(self._own(), self.record)
                if standing is Standing.FIRST:
                    why = await asyncio.to_thread(self._elsewhere)
                    self._lookout.note(why)
                    if why is None:
                        return self._tenure(None, follows=False)
                elif standing is Standing.MEMBER and self.record is not None and self.record.leader == self._replica:
                    await self._see()
                    if not (has_failed and self._yields(self.record)) and await self._comes_back(self.record):
                        return self._leading()
                elif standing in (Standing.MEMBER, Standing.OUTSIDE):
                    self._lookout.note(None)
                    await self._see()
                    return self._tenure(None, follows=True)
                elif self._incarnation.log_id:
                    self._lookout.note(self._why(standing))
                    return self._tenure(None, follows=True)  # it has something to be read, and may be told to lead
                else:
                    self._lookout.note(self._why(standing))
            await self._lookout.rest()

    def _yields(self, record: Record) -> bool:
        """Whether another may take the place of this one, which led last and could not open its log: were it to lead
        again each time that it is started, nobody else ever would. As it is silent, a member that lives does."""
        is_so = len(record.members) > 1 and self._lookout.pulse.silent_ms < YIELDED_LEASES * self._lease_ms
        if is_so:
            self._lookout.note("this replica was to lead and did not open its log: it waits for another to lead first")
        return is_so

    async def _comes_back(self, record: Record) -> bool:
        """Whether this one leads, as it did. It holds nobody for dead: nobody else leads by the record."""
        try:
            await asyncio.to_thread(self._incarnation.begin_to_lead)
            return await self._campaign(record, comes_back=True)
        except OSError as error:
            self._lookout.note(f"this replica can't promise to lead: {error}")
            return False

    def _why(self, standing: Standing) -> str:
        if standing is Standing.WAITING:
            return "there is no record of a leader yet: replica 0 begins one"
        return (
            f"this replica has seen epoch {self._incarnation.epoch}, and the store knows of none as high: it has lost "
            "what it held; lakemq broker elect --unclean at the replica that has the most"
        )

    async def establish(self, identity: LogIdentity) -> Record:
        """The first record: this replica leads with that log. Raises `LakemqError` where another was quicker."""
        self._incarnation.begin(identity.log_id, -1)
        own = Member(self._replica, self._incarnation.name)
        record = Record(self._replica, identity.now.epoch, 0, (own,), identity.log_id)
        if not await self._lookout.propose(record):
            raise LakemqError("another replica has begun the record of the leader")
        self._lead(record)
        return record

    # Following -------------------------------------------------------------------------------

    async def meanwhile(self, work: Coroutine[Any, Any, T]) -> T:
        """Do it, and look who leads all the while: it asks that one, and who doesn't look for long begins to count
        anew."""
        task = self._loop.create_task(work)
        try:
            while not task.done():
                await asyncio.wait([task], timeout=self._lookout.look_ms() / 1000)
                if not task.done():  # a look is a question or two to the store
                    await self._lookout.look()
            return await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def begin_anew(self, why: str) -> None:
        """The follower's log is another than its leader's: a broker that is opened anew cuts what that lacks."""
        logger.warning("this follower starts over: %s", why)
        self._is_to_begin_anew = True
        self.look()

    async def until_elected(self, following: Following) -> Tenure:
        """Watch who leads, and follow that one; returns when this one is to lead, or to begin anew."""
        followed = leads_in(self.record)
        while True:
            is_seen = await self._lookout.look()
            if is_seen and await self._is_forced(following):
                return self._leading()
            if self._incarnation.seal is not None:
                await self._see()  # what was promised before a crash may be over
            if self.record is not None and self._is_sound(is_seen):
                if self._is_named():
                    await following.pause()
                    with suppress(OSError):  # a start only has to know where it can't open its log, or not soon
                        await asyncio.to_thread(self._incarnation.is_to_open)
                    return self._leading()
                if leads_in(self.record) != followed:
                    followed = leads_in(self.record)
                    await self._see()
                    await following.turn()
                if self._lookout.pulse.is_dead() and await self._stand(self.record, following):
                    return self._leading()
            if self._is_to_begin_anew:
                self._is_to_begin_anew = False
                return self._tenure(None, follows=True)
            await self._lookout.rest()

    def _is_sound(self, is_seen: bool) -> bool:
        """Whether there is a record to go by; else it says why not. Where it wasn't seen just now, the look said so."""
        standing = standing_of(self._own(), self.record)
        is_sound = standing in (Standing.MEMBER, Standing.OUTSIDE)
        if is_seen:
            self._lookout.note(None if is_sound else self._why(standing))
        return is_sound

    def _is_named(self) -> bool:
        """Whether this one leads by the record, put there by the leader before it, or by itself before that was
        known."""
        record = self.record
        return record is not None and record.leader == self._replica and record.epoch > self._incarnation.epoch

    async def _stand(self, record: Record, following: Following) -> bool:
        """Propose to lead in the place of a leader that is dead. Whether this one does."""
        if standing_of(self._own(), record) is not Standing.MEMBER or following.unwritable is not None:
            return False
        await asyncio.sleep(delay_ms(random.random(), self._lease_ms) / 1000)  # noqa: S311  no secret
        if not await self._lookout.look() or self.record != record or not self._lookout.pulse.is_dead():
            return False
        logger.warning("replica %d is silent: this one proposes to lead", record.leader)
        await following.pause()
        try:
            if await self._campaign(record):
                return True
        except OSError as error:
            self._lookout.note(f"this replica can't promise to lead: {error}")
        following.start()
        return False

    # By order --------------------------------------------------------------------------------

    async def force(self) -> Record:
        """Lead with what this replica has. Raises `LeaderLives` where somebody leads, or may; `StoreUnwritable`."""
        if self._order is None or self._order.done():
            self._order = self._loop.create_future()
        self.look()
        return await asyncio.shield(self._order)

    async def _is_forced(self, following: Following) -> bool:
        """Carry out such an order; whether this one leads by it."""
        order, record = self._order, self.record
        if order is None or order.done():
            return False
        if record is not None and self._lookout.pulse.silent_ms < FORCED_LEASES * self._lease_ms:
            where = self.where() or f"replica {record.leader}"
            order.set_exception(
                LeaderLives(f"{where} leads, or gave a sign of life less than {FORCED_LEASES} leases ago")
            )
            return False
        await following.pause()
        own = self._incarnation
        member, highest = Member(self._replica, own.name), max(own.highest, following.epoch)
        if record is None:
            proposed = Record(self._replica, highest + 1, 0, (member,), own.log_id)
        else:
            proposed = forced(record, member, highest)._replace(log_id=own.log_id)
        try:
            await following.forget()
            await asyncio.to_thread(own.promise, Seal(proposed.epoch, proposed.version))
        except OSError as error:
            following.start()
            self._lookout.note(why := f"this replica can't promise to lead: {error}")
            order.set_exception(StoreUnwritable(why))
            return False
        if await self._win(proposed):
            logger.warning("replica %d leads by order: what it lacks is lost", self._replica)
            order.set_result(proposed)
            return True
        await self._lift()
        following.start()
        order.set_exception(LeaderLives("another replica was quicker"))
        return False

    async def _campaign(self, record: Record, comes_back: bool = False) -> bool:
        """Promise to follow nobody below, then propose. Whether this one leads; if not, it may follow again.
        `comes_back`: the record names it already."""
        proposed = elected(record, Member(self._replica, self._incarnation.name))
        await asyncio.to_thread(self._incarnation.promise, Seal(proposed.epoch, proposed.version))
        if await self._win(proposed, comes_back):
            return True
        await self._lift()
        return False

    async def _lift(self) -> None:
        """What was promised is over: in memory, and on disk once anything can be written."""
        with suppress(OSError):
            await asyncio.to_thread(self._incarnation.lift)

    async def _win(self, record: Record, comes_back: bool = False) -> bool:
        """Propose to lead by that record, in the place of one who is held for dead, or of itself, as it `comes_back`.
        Whether this one does; then it is known from when on it may acknowledge by its lease alone."""
        judged = self._lookout.beat
        if not await self._lookout.propose(record):
            return False
        now_ms = self._lookout.now_ms
        self.alone_ms = now_ms() + self._lease_ms  # where the store can't be read, what it has may be new
        try:
            found = await self._leadership.last_beat()
        except (OSError, LogDamaged) as error:
            self._lookout.note(f"the last leader's beat can't be seen: {error}")
        else:
            self.alone_ms = serves_from_ms(judged, found, record.epoch, now_ms(), self._lease_ms, comes_back)
        return True

    async def _see(self) -> None:
        record = self.record
        if record is None:
            return
        seal = self._incarnation.seal
        try:
            if seal is not None and not seal.holds(record):
                await asyncio.to_thread(self._incarnation.lift)
            await asyncio.to_thread(self._incarnation.see, record.epoch, self._named(record))
        except OSError as error:  # no promise rests on it: it is known in memory, and written the next time
            self._lookout.note(f"who leads can't be written down here: {error}")

    def _named(self, record: Record) -> str:
        """Which of its lives the record has, if any."""
        return next((each.incarnation for each in record.members if each.replica == self._replica), "")

    def _own(self) -> Own:
        own = self._incarnation
        return Own(self._replica, own.lives, own.epoch, own.log_id)

    # Leading ---------------------------------------------------------------------------------

    def _leading(self) -> Tenure:
        record = self.record
        assert record is not None
        self._lead(record)
        return self._tenure(record, follows=False)

    def _lead(self, record: Record) -> None:
        """By the record this one leads, from now on."""
        logger.info("replica %d leads in epoch %d: record %d", record.leader, record.epoch, record.version)
        self._lookout.note(None)
        self._lease = Lease(self._lease_ms)
        self._replaced = self._loop.create_future()
        self._beating = self._loop.create_task(self._keep_beating(record, self._replaced))

    async def until_alone(self) -> None:
        """Return when the leader before has no lease: until then both might acknowledge what followers lack."""
        await asyncio.sleep((self.alone_ms - self._lookout.now_ms() + 1) / 1000)

    async def until_replaced(self) -> Tenure:
        """Returns when another leads, by the record."""
        assert self._replaced is not None
        await asyncio.shield(self._replaced)
        self._lookout.turned()
        await self._see()
        return self._tenure(None, follows=True)

    async def until_heard(self) -> None:
        """Return once a sign of life from now on has arrived in the store: so it takes a record, too. Raises
        `StoreUnwritable` where none does for a lease, and `NotInSync` where another leads by now."""
        begun_ms = self._lookout.now_ms()
        self._lookout.wake()
        while not self._lease.is_renewed_since(begun_ms):
            if self._replaced is None or self._replaced.done():
                raise NotInSync("another leads by now")
            if self._lookout.now_ms() - begun_ms > self._lease_ms:
                why = self.problem or f"no answer within {self._lease_ms} ms"
                raise StoreUnwritable(f"who is to lead can't be written down, so this one leads on: {why}")
            await asyncio.sleep(HEARD_S)

    async def hand_over(self, record: Record, to: Member) -> Record:
        """Have that member lead in this one's place. Raises `NotInSync` where the record was changed meanwhile."""
        if to not in record.members:  # it was let go meanwhile, and may lack what is confirmed since
            raise NotInSync(f"replica {to.replica} is no longer in sync")
        proposed = switched(record, to)
        if not await self._lookout.propose(proposed):
            raise NotInSync("the leader, or the replicas in sync, have changed meanwhile")
        return proposed

    def handed_over(self) -> None:
        """All is ready for another to lead by the record."""
        if self._replaced is not None and not self._replaced.done():
            self._replaced.set_result(None)

    async def _keep_beating(self, record: Record, replaced: asyncio.Future[None]) -> None:
        try:
            await asyncio.to_thread(self._incarnation.see, record.epoch, self._named(record))
            await asyncio.to_thread(self._incarnation.lift)
        except OSError as error:
            self._lookout.note(f"who leads can't be written down here: {error}")
        count = 0
        while not replaced.done():
            count, sent_ms = count + 1, self._lookout.now_ms()
            beat = Beat(record.epoch, self._replica, count, self._address)
            self._lookout.begin()
            try:
                await self._leadership.beat(beat)
                self._lookout.beat = beat
                # After the beat: had another proposed before it arrived, that one may not have seen it.
                if self._leads_still(record, await self._leadership.read(), replaced):
                    self._lease.renew(sent_ms)
                self._lookout.note(None)
            except Superseded:
                await self._look_at_record(record, replaced)
            except Exception as error:  # noqa: BLE001  whatever it is, the next one is tried
                self._lookout.note(f"this leader's beat can't be written to the store: {error or repr(error)}")
            if not replaced.done():
                await self._lookout.rest(sent_ms + self._lease_ms // BEATS)

    async def _look_at_record(self, own: Record, replaced: asyncio.Future[None]) -> None:
        try:
            self._leads_still(own, await self._leadership.read(), replaced)
        except Exception as error:  # noqa: BLE001  whatever it is, it is looked at again
            self._lookout.note(f"who leads can't be looked at: {error}")

    def _leads_still(self, own: Record, found: Record | None, replaced: asyncio.Future[None]) -> bool:
        if found is None:
            return False
        self._lookout.record = found
        if leads_in(found) != leads_in(own) and not replaced.done():
            replaced.set_result(None)
        return not replaced.done()

    async def close(self) -> None:
        """Watch no more, and say no more that this one lives."""
        if self._beating is not None:
            self._beating.cancel()
            await asyncio.gather(self._beating, return_exceptions=True)
        await self._leadership.close()
