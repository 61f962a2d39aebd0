"""Which messages of a queue a receive gets."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import NamedTuple

from pyroaring import BitMap64

from lakemq.gateway.cold import ColdReader
from lakemq.gateway.cold.gaps import Gaps
from lakemq.gateway.filter.expiry import count_expired, expiry_of
from lakemq.gateway.filter.scan import SCAN_STEP, is_light, rows_and_bytes
from lakemq.gateway.receipts.receive_request import Chosen, ReceiveRequest, values
from lakemq.gateway.receive.backlog import Backlog, Backlogs, Key
from lakemq.gateway.receive.budget import Budget, goes_on
from lakemq.gateway.receive.seen import Seen
from lakemq.gateway.work.slices import first_of, stretches
from lakemq.gateway.work.work import Work
from lakemq.storage.read.store import Store
from lakemq.storage.segment.slice import Slice
from lakemq.storage.slices.holes import Gap, offsets_without
from lakemq.storage.state.subscription import NO_QUEUE, Cursor, Order, Subscription
from lakemq.storage.state.topics import Queue

IN_ORDER_STEP = 1_024
PLACES_MAX = 10_000
GAPS_MAX = 1_000
"""So many gaps of a queue wait at most for a message with which they are told."""


class Looked(NamedTuple):
    """A slice of a queue, and the stretches of it that match."""

    part: Slice
    found: list[Slice]


class Selection:
    """Chooses messages by what was handed out before. It chooses, and changes nothing: only a record
    in the log does."""

    def __init__(self, store: Store, cold: ColdReader, gaps: Gaps, work: Work) -> None:
        self._log = store.log
        self._reader = store.reader
        self._plans = store.plans
        self._cold = cold
        # Where it is looked through what the loop has no time for.
        self._workshop = work.answering
        self._counters = work.counters
        self._gaps = gaps
        # By queue: how far nothing was found to hand out.
        self._places: OrderedDict[Key, Seen] = OrderedDict()
        self._backlogs = Backlogs()

    async def choose(
        self,
        wanted: ReceiveRequest,
        queue: Queue,
        begin: int,
        subscription: Subscription | None,
        taken: set[Order],
        budget: Budget,
    ) -> tuple[Chosen, bool]:
        """What there is in the queue from `begin` on, its first offset that may be new; and whether
        it was all looked at. `taken`: the orders that this receive has taken a message of.

        Raises `LogDamaged`, `PositionGone`, `LakeUnreadable`, `Busy`.
        """
        cursor = self._log.routing.receipts.cursor(wanted.group, wanted.topic, queue.key)
        resets = 0 if cursor is None else cursor.resets
        view = _View(wanted, queue, begin, resets, subscription, cursor, taken)
        take = self._take_in_order if wanted.ordered else self._pick if view.ahead else self._take
        take = self._pick if view.is_retry and not wanted.selector.everything else take
        chosen, is_all = await take(view, budget)
        if view.expired:
            self._count_expired(view, max(chosen.low, view.looked_to))
        return chosen, is_all

    def _count_expired(self, view: _View, below: int) -> None:
        """What has expired and is passed over now: what was read further on is looked at again."""
        passed = sum([end - begin for begin, end in view.expired if end <= below])
        count_expired(self._log.topics, view.queue, self._counters, passed)
        if view.wanted.passed is not None:
            view.wanted.passed.expired += passed

    def forget(self, wanted: ReceiveRequest) -> None:
        """What was chosen was not handed out."""
        self._backlogs.forget((wanted.group, wanted.topic, wanted.filter))

    # All that match, one after the other -----------------------------------------------------

    async def _take(self, view: _View, budget: Budget) -> tuple[Chosen, bool]:
        queue = view.queue
        offset = self._seen(view).reached
        parts: list[Slice] = []
        scanned = 0
        while (offset := view.after_gap(offset)) < queue.end_offset and goes_on(budget, scanned):
            if view.takes_all:
                found, reached = await self._next(view, offset, budget, passes=scanned > 0 and not parts)
            else:
                looked, reached = await self._look(view, offset, max(SCAN_STEP, budget.messages_left), budget)
                found = [match for each in looked for match in each.found]
            some, end = first_of(found, budget.messages_left, reached)
            parts += some
            budget.spend(some)
            scanned += end - offset
            offset = end
        if not parts and offset > view.begin:
            self._remember(view, offset, offset)
        return Chosen(queue, parts, offset, view.resets, view.gaps), offset >= queue.end_offset or bool(parts)

    async def _next(self, view: _View, offset: int, budget: Budget, *, passes: bool) -> tuple[list[Slice], int]:
        """`_read` where all is wanted. `passes`: nothing was found before, so what has expired is passed over in large
        steps, however few messages are wanted."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        most = max(SCAN_STEP if passes else 1, budget.messages_left)
        found, reached = await self._read(view, offset, most, budget.bytes_left)
        if not found:
            budget.seconds_left -= loop.time() - begun
            await asyncio.sleep(0)  # others go on
        return found, reached

    def _seen(self, view: _View) -> Seen:
        """How far nothing is to be found; what is gone there is in the view's gaps again."""
        seen = self._places.get(view.key)
        if seen is None or not seen.holds_at(view.begin, view.life):
            return Seen(view.begin, view.life, view.begin, view.begin, [])
        seen = seen.from_(view.begin)
        view.gaps.extend(seen.gaps)
        view.seen_to = seen.reached
        return seen

    def _remember(self, view: _View, low: int, reached: int) -> None:
        self._places[view.key] = Seen(view.begin, view.life, low, reached, view.gaps[-GAPS_MAX:])
        self._places.move_to_end(view.key)
        while len(self._places) > PLACES_MAX:
            self._places.popitem(last=False)

    # In order --------------------------------------------------------------------------------

    async def _take_in_order(self, view: _View, budget: Budget) -> tuple[Chosen, bool]:
        """Of each order the first message, when nothing of it is out."""
        queue, backlog = view.queue, self._backlogs.of(view.key, view.begin, view.life)
        view.gaps, count_before = backlog.gaps, backlog.count
        parts: list[Slice] = []
        for order in backlog.orders():
            if budget.is_spent:
                break
            while (offset := self._next_held(view, backlog, order)) is not None:
                slices, _ = await self._read(view, offset, 1, budget.bytes_left)
                if slices:
                    parts += slices
                    budget.spend(slices)
                    break
                view.taken.discard(order)  # it has expired meanwhile: the next one's turn
                await asyncio.sleep(0)
        scanned = 0
        while not backlog.is_full and goes_on(budget, scanned):
            backlog.place = view.after_gap(backlog.place)
            if backlog.place >= queue.end_offset:
                break
            looked, reached = await self._look(view, backlog.place, IN_ORDER_STEP, budget)
            for part in [match for each in looked for match in each.found]:
                _sort_out(view, part, backlog, parts, budget)
                if budget.is_spent:
                    break
            else:
                scanned += reached - backlog.place
                backlog.place = reached
        backlog.gaps = [] if parts else view.gaps[-GAPS_MAX:]
        view.looked_to = backlog.place
        self._backlogs.tidy(max(backlog.count - count_before, 0))
        is_all = backlog.place >= queue.end_offset or backlog.is_full or bool(parts)
        return Chosen(queue, parts, backlog.low, view.resets, view.gaps), is_all

    def _next_held(self, view: _View, backlog: Backlog, order: Order) -> int | None:
        """The first message of the order that was left behind, if it may be handed out now."""
        if view.is_held_up(order):
            return None
        while order in backlog.held:
            offset = backlog.take(order)
            if not view.was_handed_out(offset):
                view.taken.add(order)
                return offset
        return None

    # One by one ------------------------------------------------------------------------------

    async def _pick(self, view: _View, budget: Budget) -> tuple[Chosen, bool]:
        """What matches and was not handed out; of retries, what doesn't match stays behind."""
        picker, queue, seen = _Picker(view), view.queue, self._seen(view)
        offset, scanned = seen.low, 0
        # What stays behind is come to first each time: so to end early might be never to come past it.
        while (offset := view.after_gap(offset)) < queue.end_offset and goes_on(
            budget, scanned, may_be_late=picker.left_some_behind
        ):
            # What stayed behind may be with somebody now, or have expired: if not, it's on to what is new.
            step = SCAN_STEP if scanned or offset >= seen.reached else 1
            looked, reached = await self._look(view, offset, step, budget)
            for each in looked:
                picker.look_at(each, budget)
                if budget.is_spent:
                    break
            scanned += reached - offset
            offset = max(reached, seen.reached) if picker.left_some_behind else reached
        if not budget.is_spent:
            picker.reached = offset
        if not picker.parts and offset > view.begin:
            # What is held up is looked at again.
            end = max(offset, seen.reached) if picker.held_up is None else picker.held_up
            self._remember(view, picker.low, end)
        chosen = Chosen(queue, picker.parts, picker.low, view.resets, view.gaps)
        is_all = offset >= queue.end_offset or bool(picker.parts) or picker.held_up is not None
        return chosen, is_all

    async def _look(self, view: _View, offset: int, messages_max: int, budget: Budget) -> tuple[list[Looked], int]:
        """`_read`, and what of it matches. Nothing but what is read decides on that: what is out and what is
        held up is for the caller to see afterwards, with no wait before it chooses."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        slices, reached = await self._read(view, offset, messages_max, budget.bytes_left)
        if is_light(view.wanted.selector, *rows_and_bytes(slices)):
            looked = view.look(slices)
            await asyncio.sleep(0)  # looking through much takes a while: others go on
        else:
            looked = await self._workshop.run_for(view.wanted.client)(view.look, slices)
        budget.seconds_left -= loop.time() - begun
        return looked, reached

    async def _read(self, view: _View, offset: int, messages_max: int, bytes_max: int) -> tuple[list[Slice], int]:
        """Messages of the queue from `offset` on, without those that have expired, and where to go on."""
        if offset < view.queue.min_offset:
            return await self._read_cold(view, offset, messages_max, bytes_max)
        readable = min(messages_max, view.queue.end_offset - offset)
        run = self._workshop.run_for(view.wanted.client)
        plan = await self._plans.queue(view.queue, offset, readable, bytes_max, run)
        if self._reader.cached(plan):
            slices, reached = self._reader.read_up_to(plan, bytes_max)
        else:
            slices, reached = await run(self._reader.read_up_to, plan, bytes_max)
        self._pass_over(view, slices, offset, reached)
        return self._alive(view, slices), reached

    def _alive(self, view: _View, slices: list[Slice]) -> list[Slice]:
        """Those of the messages that have not expired; the others are passed over, as what doesn't match is."""
        alive, expired = expiry_of(self._log.topics, view.queue, self._log.reading_ms()).split(slices)
        for part in expired:
            view.expired.append((part.first_queue_offset, part.end_queue_offset))
            view.forget_retries(part.first_queue_offset, part.end_queue_offset)
        return alive

    async def _read_cold(self, view: _View, offset: int, messages_max: int, bytes_max: int) -> tuple[list[Slice], int]:
        """`_read` of what has left the log. What is not in the lake either is a gap."""
        end = view.queue.min_offset
        found = await self._cold.slices(view.queue, offset, messages_max, bytes_max, view.wanted.client)
        slices, reached = ([], end) if found is None else found
        self._pass_over(view, slices, offset, reached)
        return self._alive(view, slices), reached

    def _pass_over(self, view: _View, slices: list[Slice], begin: int, end: int) -> None:
        """What none of the slices has is gone."""
        holes = offsets_without(slices, begin, end)
        for hole in holes:
            view.pass_over(*hole)
        for gap in self._gaps.note_all(view.wanted.group, view.queue, holes, view.resets):
            view.forget_retries(gap.begin, gap.end)


class _View:
    """A queue as a receive sees it: what of it is out, and what may not be handed out now."""

    def __init__(
        self,
        wanted: ReceiveRequest,
        queue: Queue,
        begin: int,
        resets: int,
        subscription: Subscription | None,
        cursor: Cursor | None,
        taken: set[Order],
    ) -> None:
        self.wanted = wanted
        self.queue = queue
        self.begin = begin
        self.resets = resets
        self.life = 0 if subscription is None else subscription.born, resets
        self.is_retry = queue.topic == wanted.retry_topic
        self.ahead = BitMap64() if cursor is None else cursor.ahead
        self.taken = taken
        self.gaps: list[Gap] = []
        self.expired: list[tuple[int, int]] = []
        """Ranges of offsets whose messages have expired, as they were read."""
        self.looked_to = begin
        """All below it was looked at, and won't be again, though some was left behind."""
        self.seen_to = begin
        """What is gone below it is in `gaps` already."""
        self._subscription = subscription or Subscription(wanted.group, wanted.topic)

    @property
    def key(self) -> Key:
        """What tells the view from that of other receives."""
        return _key(self.wanted, self.queue)

    @property
    def takes_all(self) -> bool:
        """Whether all that the queue has is wanted."""
        return self.wanted.selector.everything and not self.is_retry

    def look(self, slices: list[Slice]) -> list[Looked]:
        """What of the slices is of the topic and matches. For any thread: it sees nothing that changes."""
        selector = self.wanted.selector
        return [Looked(part, [match for own in self.own(part) for match in selector.matches(own)]) for part in slices]

    def own(self, part: Slice) -> list[Slice]:
        """What of the slice is of the topic: a group's retries are those of all its topics."""
        if not self.is_retry:
            return [part]
        return stretches(part, [topic == self.wanted.topic for topic in values(part, "real_topic")])

    def was_handed_out(self, offset: int) -> bool:
        """Whether somebody has or had the message."""
        return offset < self.begin or offset in self.ahead

    def after_gap(self, offset: int) -> int:
        """The offset, or the end of the gap that it is in, which is passed."""
        after = self.queue.after_gap(offset)
        if after > offset:
            self.pass_over(offset, after)
        return after

    def pass_over(self, begin: int, end: int) -> None:
        """No message is at these offsets: who receives is told."""
        begin = max(begin, self.seen_to)
        if begin >= end:
            return
        if self.gaps and self.gaps[-1].end == begin:
            self.gaps[-1] = self.gaps[-1]._replace(end=end)
        else:
            self.gaps.append(Gap(*self.queue.key, begin, end))

    def forget_retries(self, begin: int, end: int) -> None:
        """Nothing waits for the retries at these offsets: they are gone."""
        if self.is_retry:
            self._subscription.forget_retries_between(begin, end)

    def order_of(self, offset: int, key: str | None) -> Order:
        """What order the message keeps."""
        if not self.is_retry:
            return self.queue.queue_id if key is None else key
        waiting = self._subscription.waiting.get(offset)
        if waiting is not None:
            return waiting.order
        return NO_QUEUE if key is None else key

    def is_held_up(self, order: Order) -> bool:
        """Whether nothing of the order may be handed out now."""
        subscription = self._subscription
        if order in self.taken or order in subscription.keys_out:
            return True
        return not self.is_retry and order in subscription.keys_waiting


def _sort_out(view: _View, part: Slice, backlog: Backlog, parts: list[Slice], budget: Budget) -> None:
    """Choose of the slice what may be handed out, leave the rest behind, and move the place on."""
    keys = values(part, "ordering_key")
    for number, offset in enumerate(range(part.first_queue_offset, part.first_queue_offset + part.count)):
        backlog.place = offset + 1
        if view.was_handed_out(offset):
            continue
        order = view.order_of(offset, keys[number])
        if order in backlog.held or view.is_held_up(order):
            backlog.leave(order, offset)
            continue
        view.taken.add(order)
        one = part._replace(row=part.row + number, count=1)
        parts.append(one)
        budget.spend([one])
        if budget.is_spent:
            return


class _Picker:
    """Looks at messages one by one, where some may have to stay behind."""

    def __init__(self, view: _View) -> None:
        self._view = view
        self._left_behind: int | None = None
        self.held_up: int | None = None
        """The first message that matches and may not be handed out now."""
        self.parts: list[Slice] = []
        self.reached = view.begin

    @property
    def left_some_behind(self) -> bool:
        """Whether nothing was chosen, but something left behind."""
        return not self.parts and self._left_behind is not None

    @property
    def low(self) -> int:
        """Where the group goes on."""
        return self.reached if self._left_behind is None else self._left_behind

    def look_at(self, looked: Looked, budget: Budget) -> None:
        """Choose of the slice what may be handed out."""
        part = looked.part
        passed = part.first_queue_offset
        for stretch in looked.found:
            self._leave(passed, stretch.first_queue_offset, part)
            self._choose(stretch, budget)
            passed = stretch.first_queue_offset + stretch.count
            if budget.is_spent:
                return
        end = part.first_queue_offset + part.count
        self._leave(passed, end, part)
        self.reached = end

    def _leave(self, begin: int, end: int, part: Slice) -> None:
        """Leave those of the topic's retries behind that don't match: they wait for who wants them."""
        if begin >= end or self._left_behind is not None or not self._view.is_retry:
            return
        between = part._replace(row=part.row + begin - part.first_queue_offset, count=end - begin)
        for own in self._view.own(between):
            for offset in range(own.first_queue_offset, own.first_queue_offset + own.count):
                if not self._view.was_handed_out(offset):
                    self._left_behind = offset
                    return

    def _choose(self, stretch: Slice, budget: Budget) -> None:
        view = self._view
        keys = values(stretch, "ordering_key")
        for number, offset in enumerate(range(stretch.first_queue_offset, stretch.first_queue_offset + stretch.count)):
            self.reached = offset + 1
            if view.was_handed_out(offset):
                continue
            if view.wanted.ordered:
                order = view.order_of(offset, keys[number])
                if view.is_held_up(order):
                    self._left_behind = offset if self._left_behind is None else self._left_behind
                    self.held_up = offset if self.held_up is None else self.held_up
                    continue
                view.taken.add(order)
            one = stretch._replace(row=stretch.row + number, count=1)
            self.parts.append(one)
            budget.spend([one])
            if budget.is_spent:
                return


def _key(wanted: ReceiveRequest, queue: Queue) -> Key:
    return wanted.group, wanted.topic, wanted.filter, *queue.key
