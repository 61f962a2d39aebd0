"""Handing messages out: who asks gets what nobody else has, and the log says so first."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple
from weakref import WeakValueDictionary

from lakemq.gateway.cold import ColdReader
from lakemq.gateway.cold.gaps import Gaps
from lakemq.gateway.groups.moves import Moves
from lakemq.gateway.receipts.receive_request import Chosen, ReceiveRequest
from lakemq.gateway.receipts.records import receipts
from lakemq.gateway.receive.budget import Budget
from lakemq.gateway.receive.places import Places
from lakemq.gateway.receive.selection import Selection
from lakemq.gateway.receive.wakeups import Wakeups, Watched
from lakemq.gateway.work.work import Work
from lakemq.model.errors import FlowControl, Forbidden, PositionGone
from lakemq.model.names import RECEIVE_TOPIC
from lakemq.model.priority import order
from lakemq.model.topic_config import PRIORITY
from lakemq.settings import Receive
from lakemq.storage.log.appends import BatchAppend
from lakemq.storage.log.receiver import Stored
from lakemq.storage.log.topic_changes import TopicChanges
from lakemq.storage.read.store import Store
from lakemq.storage.segment.slice import Slice
from lakemq.storage.state.receipts import BODY_BYTES
from lakemq.storage.state.subscription import Order, Subscription
from lakemq.storage.state.topics import TOPICS_TOPIC, Queue, Topic

Parts = list[Slice]
"""What would be handed out."""


class Given(NamedTuple):
    """What a receive hands out: of each queue some messages, whose receipts are at the positions from
    `first_receipt` on, in their order."""

    chosen: list[Chosen]
    first_receipt: int
    until_ms: int


class Receiver:
    """The receives of one log. Those of one group and topic choose one after the other; which
    messages are out is what the log says, so whoever asks next sees what was given."""

    def __init__(
        self,
        store: Store,
        topics: TopicChanges,
        cold: ColdReader,
        gaps: Gaps,
        places: Places,
        moves: Moves,
        limits: Receive,
        work: Work,
        on_out: Callable[[Sequence[Chosen], int], None],
    ) -> None:
        """`on_out` is told what is out, and where the first of its receipts is."""
        self._log = store.log
        self._ids = store.ids
        self._topics = topics
        self._cold = cold
        self._limits = limits
        self._work = work
        self._on_out = on_out
        self._selection = Selection(store, cold, gaps, work)
        self._places = places
        self._moves = moves
        self._locks: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._wakeups: dict[tuple[str, str, str, bool], Wakeups] = {}
        self._storing = 0
        self._turn = 0

    async def receive(
        self,
        wanted: ReceiveRequest,
        wait_ms: int,
        gone: asyncio.Future[None],
        admit: Callable[[Parts], object] = len,
    ) -> Given | None:
        """Hand messages out, waiting so long for the first; None when there were none.

        Raises `TopicNotFound`, `Forbidden`, `ConsumeDisabled`, `FlowControl`, `Busy`, `StoreUnwritable`, `LogDamaged`,
        `LakeUnreadable`. `gone` is done when nobody waits for the answer any more. `admit` is told what would be
        handed out: nothing is, where it raises.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_ms / 1000
        given, is_all = await self._attempt(wanted, admit)
        if given is not None or not wait_ms:
            return given
        wakeups = self._wakeups_of(wanted)
        has_to_hand_on = False
        try:
            while given is None and loop.time() < deadline and not self._work.waiters.stopping and not gone.done():
                waiter = wakeups.join()
                try:
                    # What came since the last look is seen now, what comes from now on ends the wait.
                    given, is_all = await self._attempt(wanted, admit)
                    has_to_hand_on = given is not None  # there may be more
                    if given is None and is_all:
                        left = max(deadline - loop.time(), 0)
                        await self._work.waiters.wait(waiter.future, left, gone, wanted.client)
                    elif given is None:
                        await asyncio.sleep(0)  # there is much to look at: others go on
                finally:
                    wakeups.leave(waiter)
                    has_to_hand_on = has_to_hand_on or waiter.woken
        finally:
            if has_to_hand_on:
                wakeups.wake_next()
            if not len(wakeups):
                self._wakeups.pop(_wakeups_key(wanted), None)
        return given

    def _wakeups_of(self, wanted: ReceiveRequest) -> Wakeups:
        key = _wakeups_key(wanted)
        wakeups = self._wakeups.get(key)
        if wakeups is None:
            wakeups = self._wakeups[key] = Wakeups(partial(self._watch, wanted))
        return wakeups

    def _watch(self, wanted: ReceiveRequest, arrival: asyncio.Future[None]) -> Sequence[Watched]:
        topics = self._log.topics
        # A new queue, or the group's first retry, comes with a record in the topics' topic.
        watched = [queue.waiters for queue in [*self._sources(wanted), topics.queue(TOPICS_TOPIC, 0)]]
        own = self._log.routing.receipts.waiters(wanted.group, wanted.topic)
        watched.append(own.ordered if wanted.ordered else own.any)
        for waiters in watched:
            waiters.add(arrival)
        paused = self._log.state.groups.watchers.of(wanted.group)
        paused.add(arrival)
        return [*watched, paused]

    # Choosing --------------------------------------------------------------------------------

    def _topic(self, name: str) -> Topic:
        topic = self._log.topics.get(name)
        if topic.permission == "w":
            raise Forbidden(f"topic {name!r} is write-only")
        return topic

    def _sources(self, wanted: ReceiveRequest) -> list[Queue]:
        """The queues to look at: retries first, then the topic's, each time from another one on, or by priority."""
        topic = self._topic(wanted.topic)
        queues = topic.queues
        retries = self._log.topics.find(wanted.retry_topic)
        if topic.config.message_type == PRIORITY:
            subscription = self._log.routing.receipts.find(wanted.group, wanted.topic)
            turn = 0 if subscription is None else subscription.turn
            by_priority = [queues[queue_id] for queue_id in order(len(queues), turn)]
            return [*(retries.queues if retries is not None else ()), *by_priority]
        turn = self._turn % len(queues)
        return [*(retries.queues if retries is not None else ()), *queues[turn:], *queues[:turn]]

    async def _attempt(self, wanted: ReceiveRequest, admit: Callable[[Parts], object]) -> tuple[Given | None, bool]:
        """What there is now; and whether all was looked at."""
        self._log.state.groups.check_enabled(wanted.group)
        self._places.use(wanted.group, wanted.topic)
        if not self._may_have_some(wanted):
            return None, True
        for topic in (RECEIVE_TOPIC, wanted.retry_topic):
            await self._topics.system(topic)
        key = wanted.group, wanted.topic
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        await lock.acquire()
        try:
            chosen, is_all = await self._choose_there(wanted)
            if chosen:
                admit([part for some in chosen for part in some.parts])
        except PositionGone:
            self._let_go(wanted, lock)  # retention was faster, or who moves the group
            return None, False
        except BaseException:
            self._let_go(wanted, lock)
            raise
        if not chosen:
            # Where it was not all looked at, the next look begins with another queue.
            self._turn += not is_all
            lock.release()
            return None, is_all
        self._turn += 1
        if (subscription := self._log.routing.receipts.find(wanted.group, wanted.topic)) is not None:
            subscription.turn += 1
        given = await self._store(wanted, chosen, lock)
        if subscription is None:  # the first receive has made it
            self._places.use(wanted.group, wanted.topic)
        return given, True

    def _let_go(self, wanted: ReceiveRequest, lock: asyncio.Lock) -> None:
        """End a receive that hands nothing out of what it may have chosen."""
        self._selection.forget(wanted)
        lock.release()

    def _may_have_some(self, wanted: ReceiveRequest) -> bool:
        places = [(queue, self._place(wanted, queue)) for queue in self._sources(wanted)]
        return any((queue.floor if place is None else place) < queue.end_offset for queue, place in places)

    def _place(self, wanted: ReceiveRequest, queue: Queue) -> int | None:
        """Where the group goes on in the queue; None: at its first message."""
        cursor = self._log.routing.receipts.cursor(wanted.group, wanted.topic, queue.key)
        if cursor is not None:
            return max(cursor.low, queue.floor)
        found = self._log.state.groups.find(wanted.group)
        offset = None if found is None else found.find_offset(queue.topic, queue.queue_id)
        return None if offset is None else max(offset, queue.floor)

    async def _begin(self, wanted: ReceiveRequest, queue: Queue) -> int:
        """The queue's first offset that may be new to the group, in the log or the lake."""
        place = self._place(wanted, queue)
        return await self._cold.min_offset(queue) if place is None else place

    async def _choose_there(self, wanted: ReceiveRequest) -> tuple[list[Chosen], bool]:
        """`_choose`, by places that are the group's still. Raises `PositionGone`."""
        await self._moves.settled(wanted.group)
        with self._moves.looking(wanted.group) as look:
            chosen, is_all = await self._choose(wanted)
        if chosen and look.moved:
            raise PositionGone("the group was set to another place while it was looked through")
        return chosen, is_all

    async def _choose(self, wanted: ReceiveRequest) -> tuple[list[Chosen], bool]:
        budget = Budget(self._room(wanted), self._work.limits.pull_bytes_max)
        subscription = self._log.routing.receipts.find(wanted.group, wanted.topic)
        if subscription is None:
            await self._places.make_room()
        taken: set[Order] = set()
        chosen: list[Chosen] = []
        is_all = True
        for queue in self._sources(wanted):
            if budget.is_spent:
                break
            begin = await self._begin(wanted, queue)
            if subscription is not None and queue.topic == wanted.retry_topic:
                _forget_retries(subscription, queue, begin)
            if begin >= queue.end_offset:
                continue
            some, all_of_it = await self._selection.choose(wanted, queue, begin, subscription, taken, budget)
            is_all = is_all and all_of_it
            if some.parts:
                chosen.append(some)
            if budget.is_late and queue.topic == wanted.topic:
                is_all = False
                break
        if any(some.parts[0].first_queue_offset < some.queue.floor for some in chosen):
            raise PositionGone("the topic was deleted while it was looked through")
        return chosen, is_all

    def _room(self, wanted: ReceiveRequest) -> int:
        limits, receipts = self._limits, self._log.routing.receipts
        room = limits.out_max - len(receipts) - self._storing
        if room <= 0:
            raise FlowControl(f"{limits.out_max} messages are out already (receive.out_max)")
        room_of_group = limits.group_out_max - receipts.out_of_group.get(wanted.group, 0)
        if room_of_group <= 0:
            raise FlowControl(f"the group has {limits.group_out_max} messages out already (receive.group_out_max)")
        return min(room, room_of_group, wanted.messages_max)

    # Storing ---------------------------------------------------------------------------------

    async def _store(self, wanted: ReceiveRequest, chosen: list[Chosen], lock: asyncio.Lock) -> Given:
        until_ms = self._log.now_ms() + wanted.invisible_ms
        content = receipts(wanted, chosen, until_ms, self._ids)
        count = content.count
        queue = self._log.topics.queue(RECEIVE_TOPIC, 0)
        storing = self._log.append(BatchAppend(content, [(queue, count)], count * BODY_BYTES))
        self._storing += count
        self._moves.store(wanted.group, storing)

        def stored(done: asyncio.Future[Stored]) -> None:
            # With the write, not with who waits for it: that may be cancelled before.
            self._storing -= count
            if done.exception() is not None:
                self._selection.forget(wanted)
            lock.release()

        storing.add_done_callback(stored)
        placed = (await asyncio.shield(storing)).placed
        self._on_out(chosen, placed[0].position)
        return Given(chosen, placed[0].position, until_ms)


def _forget_retries(subscription: Subscription, queue: Queue, begin: int) -> None:
    """Nothing waits for the retries that the group will never come to: they have left the log, or it is past them."""
    cursor = subscription.cursors.get(queue.key)
    place = 0 if cursor is None else cursor.low
    if begin > place:
        subscription.forget_retries_between(place, begin)


def _wakeups_key(wanted: ReceiveRequest) -> tuple[str, str, str, bool]:
    return wanted.group, wanted.topic, wanted.filter, wanted.ordered
