"""What push consumers do: hold queues, have their messages processed, commit how far they have come."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakemq.client.client_id import describe_queues
from lakemq.client.consume.away import Away
from lakemq.client.consume.group_api import NackedMessage
from lakemq.client.consume.held_queue import HeldQueue
from lakemq.client.consume.listener import Call, Failed, Outcome, Span, Terms
from lakemq.client.consume.locks import Locks
from lakemq.client.consume.member import COMMIT_S, Member, MemberOptions, every
from lakemq.client.consume.outlook import Outlook
from lakemq.client.consume.overdue import Overdue, Running
from lakemq.client.consume.pauses import Pauses
from lakemq.client.consume.process_queue import Limits, Work
from lakemq.client.consume.reason import Reasons, timed_out
from lakemq.client.consume.rebalancer import Holder
from lakemq.client.consume.reply import ReplyFields, reply
from lakemq.client.consume.workers import Workers
from lakemq.client.errors import Closed, Unreachable
from lakemq.client.view import MessageView
from lakemq.model.errors import LakemqError
from lakemq.model.message_queue import MessageQueue

logger = logging.getLogger("lakemq.client")

LOCAL_RETRY_S = 5.0
"""When a failed message can't be sent back, it is tried again here after so long."""
HANDOVER_S = 0.4
"""How long a queue that another member may have had is left alone: that one finishes and commits."""
FINISH_S = 0.3
"""How long who loses a queue waits for messages in work before it commits, once and never later: the
next owner's offsets are not to be overwritten. So it is less than `HANDOVER_S`."""
CLOSE_S = 5.0
"""How long `close` waits for messages in work."""
UNLOCKED_S = 0.1

Invoke = Callable[[Work[MessageView], Terms], Awaitable[Outcome]]
"""Has the listener process messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Processing:
    """How messages are processed; what each means is said where a consumer is made. `cancels`: a listener that takes
    too long can be cancelled, which a thread can't. `retries_by_topic`: of an application's listeners, which give up
    by themselves."""

    invoke: Invoke
    cancels: bool
    concurrency: int
    take_max: int | None
    orderly: bool
    max_reconsume_times: int | None
    retries_by_topic: Mapping[str, int]
    suspend_s: float
    consume_timeout_s: float | None
    limits: Limits
    span: Span | None
    reasons: Reasons


class PushEngine:
    """A push consumer but for its face. Lives on one event loop."""

    def __init__(self, group: str, member: MemberOptions, processing: Processing) -> None:
        self._how = processing
        self._member = Member(group, member, Holder(self._gain, self._lose), retries=True)
        self._outlook = Outlook(
            processing.orderly,
            self._member.broadcasting,
            processing.max_reconsume_times,
            processing.suspend_s,
            processing.retries_by_topic,
        )
        self._api = self._member.api
        self._member.membership.on_enabled = self._follow_operator
        self._member.status = self._status
        self._locks: Locks | None = None
        if processing.orderly and not self._member.broadcasting:
            self._locks = Locks(self._api, self._lock_lost)
        self._workers = Workers(processing.concurrency, self._process, processing.take_max)
        self._held: dict[MessageQueue, HeldQueue] = {}
        self._away = Away()
        self._pauses = Pauses()
        self._overdue = Overdue(processing.consume_timeout_s, processing.concurrency, self._give_up)
        self._given_up: set[asyncio.Task[None]] = set()
        self._leaving: dict[MessageQueue, asyncio.Task[None]] = {}
        self._committing: dict[str, asyncio.Lock] = {}
        self._commits: asyncio.Task[None] | None = None
        self._closed = False
        self._closing: asyncio.Task[None] | None = None

    @property
    def client_id(self) -> str:
        """The client's name in its group."""
        return self._member.client_id

    @property
    def connected(self) -> bool:
        """As `Membership.connected`."""
        return self._member.membership.connected

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues it has now, sorted."""
        return sorted(self._held)

    async def subscribe(self, topic: str, tags: str, sql: str | None) -> None:
        """As `Member.subscribe`."""
        self._check_open()
        await self._member.subscribe(topic, tags, sql)

    async def unsubscribe(self, topic: str) -> None:
        """As `Member.unsubscribe`."""
        self._check_open()
        await self._member.unsubscribe(topic)

    @property
    def paused(self) -> bool:
        """Whether the program paused all."""
        return self._pauses.everything

    async def pause(self, what: tuple[str | MessageQueue, ...]) -> None:
        """As `Pauses.pause`: what is being processed is finished, and nothing more begins."""
        self._check_open()
        self._pauses.pause(what)
        self._follow_pauses()

    async def resume(self, what: tuple[str | MessageQueue, ...]) -> None:
        """As `Pauses.resume`."""
        self._check_open()
        self._pauses.resume(what)
        self._follow_pauses()

    def _follow_operator(self, broker: str, enabled: bool) -> None:
        if self._pauses.follow(broker, enabled):
            what = "again" if enabled else "nothing now: an operator has paused it, or its group"
            logger.warning("at broker %s, %s of group %s consumes %s", broker, self.client_id, self._member.group, what)
            self._follow_pauses()

    def _follow_pauses(self) -> None:
        changed = [held for held in self._held.values() if self._pauses.holds(held.queue) != held.paused]
        for held in changed:
            held.pause(not held.paused)
        # Together, so that the first message is of the highest priority that is here.
        self._workers.ready(*[held for held in changed if not held.paused])
        self._member.membership.tell()

    def _status(self, broker: str) -> dict[str, Any]:
        held = [each for each in self._held.values() if each.queue.broker == broker]
        buffered = sum(each.process.waiting for each in held if each.process is not None)
        paused = bool(self._pauses) if not held else all(each.paused for each in held)
        said = {"paused": paused, "buffered": buffered, "stuck": self._overdue.stuck}
        return said | describe_queues(each.queue for each in held)

    async def reply(self, message: MessageView, body: object, fields: ReplyFields) -> None:
        """As `reply.reply`."""
        await reply(self._member.cluster, message, body, fields)

    async def start(self) -> None:
        """Join the group and begin; raises as `Membership.start`, and is closed then."""
        self._check_open()
        if self._commits is not None:
            return
        try:
            self._commits = asyncio.create_task(every(COMMIT_S, self._commit))
            self._overdue.start()
            await self._member.start()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Finish what is being processed, for 5 s at most, commit, and leave the group. A listener that
        calls it is not waited for: it ends once that has returned.

        Ordered messages that take longer keep their queues: neither are their locks given back nor does
        the client leave; both expire by themselves.
        """
        if self._closing is None:
            self._closing = asyncio.create_task(self._close())
        if not self._workers.called_from_one:
            await asyncio.shield(self._closing)

    async def _close(self) -> None:
        self._closed = True
        await self._member.rebalancer.close()
        if self._commits is not None:
            self._commits.cancel()
        held = list(self._held.values())
        busy = await self._finish(held)
        self._overdue.close()
        stays = bool(busy) and self._locks is not None
        if stays:
            logger.warning("%s is closed while ordered messages are being processed", self.client_id)

        async def last(broker: str) -> None:
            there = [each for each in held if each.queue.broker == broker]
            if there:
                await self._store(there)
            if there and self._locks is not None:
                await self._locks.release(each.queue for each in there if each not in busy)

        await self._member.leave({each.queue.broker for each in held}, last, leaves=not stays)
        if self._locks is not None:
            await self._locks.close()
        await self._workers.close()
        await self._member.cluster.close()

    async def _finish(self, held: Sequence[HeldQueue]) -> list[HeldQueue]:
        """Wait for what is being processed; those queues where something still is."""
        for each in held:
            each.drop()
        await asyncio.gather(*(each.stopped() for each in held))
        waits = [asyncio.ensure_future(each.process.quiet.wait()) for each in held if each.process is not None]
        if waits or self._leaving:
            await asyncio.wait([*waits, *self._leaving.values()], timeout=CLOSE_S)
        for wait in waits:
            wait.cancel()
        return [each for each in held if each.process is not None and not each.process.quiet.is_set()]

    def _check_open(self) -> None:
        if self._closed:
            raise Closed(f"the consumer {self.client_id} is closed")

    # Queues ------------------------------------------------------------------------------------

    async def _gain(self, queues: Sequence[MessageQueue], shared: bool) -> None:
        """Begin to consume them."""
        for queue in queues:
            self._hold(queue, shared)

    async def _lose(self, queues: Sequence[MessageQueue], commit: bool) -> None:
        """Stop consuming them; the rest goes on by itself."""
        for queue in queues:
            self._let_go(queue, commit)

    def _hold(self, queue: MessageQueue, shared: bool) -> None:
        params = {**self._member.subscription_of(queue).params(), "group": self._member.group}
        held = self._held[queue] = HeldQueue(
            self._member.cluster,
            queue,
            self._how.limits,
            params,
            self._how.orderly,
            self._workers.ready,
            self._member.rebalancer.trigger,
            self._member.gaps,
            self._away,
            self._pauses.holds(queue),
        )
        held.start(lambda: self._begin(queue, shared))

    async def _begin(self, queue: MessageQueue, shared: bool) -> int:
        leaving = self._leaving.get(queue)
        if leaving is not None:
            await asyncio.wait([leaving])
        if self._locks is not None:
            await self._locks.acquire(queue)
        elif shared:
            await asyncio.sleep(HANDOVER_S)
        return await self._member.offsets.load(queue)

    def _let_go(self, queue: MessageQueue, commit: bool) -> None:
        held = self._held.pop(queue)
        held.drop()
        # Seen from now: a heartbeat that comes later says nothing of what was before.
        commit = commit and self._member.may_commit(queue)
        before = self._leaving.get(queue)
        leaving = self._leaving[queue] = asyncio.create_task(self._hand_over(held, commit, before))
        leaving.add_done_callback(lambda task: self._forget(queue, task))

    def _forget(self, queue: MessageQueue, task: asyncio.Task[None]) -> None:
        if self._leaving.get(queue) is task:
            del self._leaving[queue]

    async def _hand_over(self, held: HeldQueue, commit: bool, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        await held.stopped()
        if held.process is not None:
            # Nobody has a queue whose lock isn't given back: so what is ordered is finished first.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FINISH_S if self._locks is None else None):
                    await held.process.quiet.wait()
            if commit:
                await self._store([held])
        if self._locks is not None:
            await self._locks.release([held.queue])

    def _lock_lost(self, queue: MessageQueue) -> None:
        logger.warning("the lock of %s was lost: it was not renewed in time", queue)
        if queue in self._held and not self._closed:
            self._let_go(queue, commit=False)
            self._hold(queue, shared=True)

    async def _commit(self) -> None:
        by_broker: dict[str, list[HeldQueue]] = {}
        for held in self._held.values():
            by_broker.setdefault(held.queue.broker, []).append(held)
        commits = [asyncio.create_task(self._store(part)) for part in by_broker.values()]
        if commits:  # a broker that hangs keeps no other one's from the next commit
            await asyncio.wait(commits, timeout=COMMIT_S)

    async def _store(self, held: Sequence[HeldQueue]) -> None:
        """Commit offsets of queues of one broker, one after the other: a later one is never overtaken."""
        async with self._committing.setdefault(held[0].queue.broker, asyncio.Lock()):
            offsets = {
                each: offset
                for each in held
                if (offset := each.uncommitted) is not None and self._member.may_commit(each.queue)
            }
            if not offsets:
                return
            try:
                await self._member.offsets.store({each.queue: offset for each, offset in offsets.items()})
            except (LakemqError, OSError) as error:
                logger.warning("could not store the offsets of %d queues: %s", len(offsets), error)
                return
            for each, offset in offsets.items():
                each.committed = offset

    # Messages ----------------------------------------------------------------------------------

    async def _process(self, held: HeldQueue, work: Work[MessageView]) -> float | None:
        """Have the listener process it; how long a message took it."""
        begin = work.done
        outcome = await self._call(held, work)
        if outcome is None:
            return None
        seconds = outcome.seconds / (outcome.reached - begin) if outcome.reached > begin else None
        if held.in_order and outcome.failed:
            await self._again_in_place(held, work, outcome.failed)
        elif outcome.failed and not await self._send_back(held, work, outcome.failed):
            rest = range(outcome.reached, len(work.messages))
            work.keep([*(each.number for each in outcome.failed), *rest])
            held.suspend(work, LOCAL_RETRY_S)
        else:
            work.done = outcome.reached
            self._end(held, work)
        return seconds

    async def _call(self, held: HeldQueue, work: Work[MessageView]) -> Outcome | None:
        """Call the listener; None: it took too long, and its messages are others' by now."""
        call, locks, queue = Call(), self._locks, held.queue

        def stop() -> bool:
            return held.dropped or held.paused or call.given_up or (locks is not None and not locks.valid(queue))

        running = self._overdue.begin(held, work, call)
        try:
            terms = Terms(stop, held.in_order, self._how.span, call, self._how.reasons, self._outlook)
            outcome = await self._how.invoke(work, terms)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not call.given_up or task is None or task.uncancel():
                raise  # it is the consumer that ends
        else:
            if not call.given_up:
                return outcome
            logger.warning("a listener returned too late: its result for a message of %s is ignored", queue)
        finally:
            self._overdue.end(running)
        return None

    def _give_up(self, running: Running) -> None:
        """A listener takes too long: its messages are delivered again later, and others continue with the rest."""
        held, work, process = running.held, running.work, running.held.process
        assert process is not None
        number, count = running.call.number, len(work.messages)
        failed = {each.number: each for each in running.call.failed}
        now = range(number, number + 1) if self._how.take_max is None else range(work.done, count)
        limit_s = self._how.consume_timeout_s or 0.0
        late = timed_out(limit_s, self._how.reasons)
        failed = {each: failed.get(each) or Failed(each, 0, late) for each in sorted({*failed, *now})}
        rest = range(now.stop, count)
        logger.error(
            "the listener has had message %s of %s for more than %g s: %s",
            work.messages[number].message_id,
            held.queue,
            limit_s,
            self._outlook.after(work.messages[number].reconsume_times, work.messages[number].topic),
        )
        fresh = process.replace(work, [*failed, *rest])
        if self._how.cancels and running.task is not None:
            running.task.cancel()
        again = [each._replace(number=place) for place, each in enumerate(failed.values())]
        task = asyncio.create_task(self._give_back(held, fresh, again))
        self._given_up.add(task)
        task.add_done_callback(self._given_up.discard)

    async def _give_back(self, held: HeldQueue, work: Work[MessageView], failed: Sequence[Failed]) -> None:
        assert held.process is not None
        if held.dropped:  # whoever has the queue now has had them again
            held.process.leave(work)
            return
        sent = False
        try:
            sent = await self._send_back(held, work, failed)
        except Exception:
            logger.exception("can't send messages of %s back; retrying them here", held.queue)
        if sent:
            work.done = len(failed)
            self._end(held, work, 0.0)
        else:
            held.suspend(work, LOCAL_RETRY_S)

    def _end(self, held: HeldQueue, work: Work[MessageView], wait_s: float = UNLOCKED_S) -> None:
        """Some worker has ended with it: all is done, or the queue was lost, or its lock for a while."""
        assert held.process is not None
        if work.lowest_unfinished is None:
            held.process.finish(work)
        else:
            held.suspend(work, 0.0 if held.paused else wait_s)

    async def _again_in_place(self, held: HeldQueue, work: Work[MessageView], failed: Sequence[Failed]) -> None:
        """What is ordered waits for the message that failed, but for one that has failed too often."""
        limit = self._how.max_reconsume_times
        messages = [work.messages[each.number] for each in failed]
        for message in messages:
            message.count_retry()
        too_often = limit is not None and messages[0].reconsume_times > limit
        if not too_often and failed[0].delay_level >= 0:
            held.suspend(work, self._how.suspend_s)
        elif await self._send_back(held, work, [each._replace(delay_level=-1) for each in failed]):
            work.done = failed[-1].number + 1
            self._end(held, work, 0.0)
        else:
            held.suspend(work, LOCAL_RETRY_S)

    def _is_last(self, message: MessageView) -> bool:
        """Whether its listener has retries of its own, and none is left: so also where it took too long."""
        limit = self._how.retries_by_topic.get(message.topic)
        return limit is not None and message.reconsume_times >= limit

    async def _send_back(self, held: HeldQueue, work: Work[MessageView], failed: Sequence[Failed]) -> bool:
        """Have the broker bring them again later; False: it could not be told."""
        messages = [work.messages[each.number] for each in failed]
        levels = [
            -1 if self._is_last(message) else each.delay_level for message, each in zip(messages, failed, strict=True)
        ]
        ids = [
            NackedMessage(message.message_id, level, each.why)
            for message, level, each in zip(messages, levels, failed, strict=True)
        ]
        if self._member.broadcasting:
            logger.warning("%d messages of %s failed; broadcasting never retries", len(ids), held.queue)
            return True
        try:
            await self._api.nack(held.queue.broker, ids, self._how.max_reconsume_times)
        except LakemqError as error:
            logger.warning("can't send %d messages of %s back now: %s", len(ids), held.queue, error)
            if isinstance(error, Unreachable) or len(failed) == 1:
                return False
            # One that can't be sent back doesn't keep the others from it.
            return all([await self._send_back(held, work, [each]) for each in failed])
        return True
