"""Which messages of a queue a receive gets."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

from pyroaring import BitMap64

from lakemq.gateway.cold import ColdReader
from lakemq.gateway.gaps import Gap, Gaps
from lakemq.gateway.receive.backlog import Backlog, Backlogs, Key
from lakemq.gateway.receive.wanted import Chosen, Wanted, values
from lakemq.gateway.slices import first_of, stretches
from lakemq.storage.reader import Reader, Slice
from lakemq.storage.subscription import NO_QUEUE, Cursor, Order, Subscription
from lakemq.storage.topics import Queue

SCANNED_MAX = 65_536
"""So many messages of a queue are looked at in one go."""
SCAN_STEP = 4_096
IN_ORDER_STEP = 1_024
PLACES_MAX = 10_000
Place = tuple[int, int]
"""Where a group is in a queue: an offset, and how often that was reset."""


class Budget:
    """How many messages, and about how many bytes of memory, a receive may still take."""

    __slots__ = ("bytes_left", "messages_left")

    def __init__(self, messages: int, bytes_max: int) -> None:
        self.messages_left = messages
        self.bytes_left = bytes_max

    @property
    def is_spent(self) -> bool:
        """Whether there is room for no more."""
        return self.messages_left <= 0 or self.bytes_left <= 0

    def spend(self, parts: list[Slice]) -> None:
        """These were chosen."""
        for part in parts:
            self.messages_left -= part.count
            self.bytes_left -= part.frame.batch.nbytes * part.count // max(part.frame.batch.num_rows, 1)


class Selection:
    """Chooses messages by what was handed out before. It chooses, and changes nothing: only a record
    in the log does."""

    def __init__(self, reader: Reader, cold: ColdReader, gaps: Gaps) -> None:
        self._reader = reader
        self._cold = cold
        self._gaps = gaps
        # By queue: how far nothing was found from a cursor's place on.
        self._places: OrderedDict[Key, tuple[Place, int]] = OrderedDict()
        self._backlogs = Backlogs()

    async def choose(
        self,
        wanted: Wanted,
        queue: Queue,
        begin: int,
        subscription: Subscription | None,
        taken: set[Order],
        budget: Budget,
    ) -> tuple[Chosen, bool]:
        """What there is in the queue from `begin` on, its first offset that may be new; and whether
        it was all looked at. `taken`: the orders that this receive has taken a message of.

        Raises `LogDamaged`, `PositionGone`, `LakeUnreadable`.
        """
        cursor = None if subscription is None else subscription.cursors.get(queue.key)
        resets = 0 if cursor is None else cursor.resets
        view = _View(wanted, queue, begin, resets, subscription, cursor, taken)
        if view.is_retry and not wanted.selector.everything:
            return await self._pick(view, budget)
        if wanted.ordered:
            return await self._take_in_order(view, budget)
        if view.ahead:
            return await self._pick(view, budget)
        return await self._take(view, budget)

    def forget(self, wanted: Wanted) -> None:
        """What was chosen was not handed out."""
        self._backlogs.forget((wanted.group, wanted.topic, wanted.filter))

    # All that match, one after the other -----------------------------------------------------

    async def _take(self, view: _View, budget: Budget) -> tuple[Chosen, bool]:
        queue = view.queue
        offset = self._place(view)
        matches = _matcher(view.wanted, queue)
        step = 1 if matches is None else SCAN_STEP
        parts: list[Slice] = []
        scanned = 0
        while (offset := queue.after_gap(offset)) < queue.next_offset and not budget.is_spent and scanned < SCANNED_MAX:
            slices, reached = await self._read(view, offset, max(step, budget.messages_left), budget.bytes_left)
            found = slices if matches is None else [match for part in slices for match in matches(part)]
            some, end = first_of(found, budget.messages_left, reached)
            parts += some
            budget.spend(some)
            scanned += end - offset
            offset = end
            if matches is not None:
                await asyncio.sleep(0)  # looking through much takes a while: others go on
        if not parts and offset > view.begin:
            self._remember(view, offset)
        return Chosen(queue, parts, offset, view.resets, view.gaps), offset >= queue.next_offset or bool(parts)

    def _place(self, view: _View) -> int:
        place = self._places.get(view.key)
        return place[1] if place is not None and place[0] == view.place else view.begin

    def _remember(self, view: _View, offset: int) -> None:
        self._places[view.key] = view.place, offset
        self._places.move_to_end(view.key)
        while len(self._places) > PLACES_MAX:
            self._places.popitem(last=False)

    # In order --------------------------------------------------------------------------------

    async def _take_in_order(self, view: _View, budget: Budget) -> tuple[Chosen, bool]:
        """Of each order the first message, when nothing of it is out."""
        queue, backlog = view.queue, self._backlogs.of(view.key, view.begin, view.resets)
        parts: list[Slice] = []
        for order in backlog.orders():
            if budget.is_spent:
                break
            offset = self._next_held(view, backlog, order)
            if offset is not None:
                slices, _ = await self._read(view, offset, 1, budget.bytes_left)
                parts += slices
                budget.spend(slices)
        scanned = 0
        matches = _matcher(view.wanted, queue)
        while not (budget.is_spent or backlog.is_full or scanned >= SCANNED_MAX):
            backlog.place = queue.after_gap(backlog.place)
            if backlog.place >= queue.next_offset:
                break
            slices, reached = await self._read(view, backlog.place, IN_ORDER_STEP, budget.bytes_left)
            found = slices if matches is None else [match for part in slices for match in matches(part)]
            for part in found:
                _sort_out(view, part, backlog, parts, budget)
                if budget.is_spent:
                    break
            else:
                scanned += reached - backlog.place
                backlog.place = reached
            await asyncio.sleep(0)
        self._backlogs.tidy()
        is_all = backlog.place >= queue.next_offset or backlog.is_full or bool(parts)
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
        picker, queue = _Picker(view), view.queue
        offset, scanned = self._place(view), 0
        while (offset := queue.after_gap(offset)) < queue.next_offset and not budget.is_spent and scanned < SCANNED_MAX:
            slices, reached = await self._read(view, offset, SCAN_STEP, budget.bytes_left)
            for part in slices:
                picker.look_at(part, budget)
                if budget.is_spent:
                    break
            scanned += reached - offset
            offset = reached
            await asyncio.sleep(0)
        if not budget.is_spent:
            picker.reached = offset
        if picker.found_nothing and offset > view.begin:
            self._remember(view, offset)
        chosen = Chosen(queue, picker.parts, picker.low, view.resets, view.gaps)
        return chosen, offset >= queue.next_offset or not picker.found_nothing

    async def _read(self, view: _View, offset: int, messages_max: int, bytes_max: int) -> tuple[list[Slice], int]:
        """Messages of the queue from `offset` on, and where to go on."""
        if offset < view.queue.min_offset:
            return await self._read_cold(view, offset, messages_max, bytes_max)
        plan = self._reader.plan(view.queue, offset, messages_max, bytes_max)
        if self._reader.cached(plan):
            return self._reader.read_up_to(plan, bytes_max)
        return await asyncio.to_thread(self._reader.read_up_to, plan, bytes_max)

    async def _read_cold(self, view: _View, offset: int, messages_max: int, bytes_max: int) -> tuple[list[Slice], int]:
        """`_read` of what has left the log. What is not in the lake either is a gap."""
        end = view.queue.min_offset
        found = await self._cold.slices(view.queue, offset, messages_max, bytes_max)
        slices, reached = ([], end) if found is None else found
        begin = offset
        for part in slices:
            self._pass_over(view, begin, part.first_queue_offset)
            begin = part.end_queue_offset
        self._pass_over(view, begin, reached)
        return slices, reached

    def _pass_over(self, view: _View, begin: int, end: int) -> None:
        queue = view.queue
        # What was never given to a message is no gap.
        if queue.count_from(begin) > queue.count_from(end):
            gap = Gap(*queue.key, begin, end)
            view.gaps.append(gap)
            view.forget_retries(begin, end)
            self._gaps.note(view.wanted.group, gap, view.resets)


class _View:
    """A queue as a receive sees it: what of it is out, and what may not be handed out now."""

    def __init__(
        self,
        wanted: Wanted,
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
        self.is_retry = queue.topic == wanted.retry_topic
        self.ahead = BitMap64() if cursor is None else cursor.ahead
        self.taken = taken
        self.gaps: list[Gap] = []
        self._subscription = subscription or Subscription(wanted.group, wanted.topic)

    @property
    def key(self) -> Key:
        """What tells the view from that of other receives."""
        return _key(self.wanted, self.queue)

    @property
    def place(self) -> Place:
        """Where the group is in the queue."""
        return self.begin, self.resets

    def was_handed_out(self, offset: int) -> bool:
        """Whether somebody has or had the message."""
        return offset < self.begin or offset in self.ahead

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
        self.parts: list[Slice] = []
        self.reached = view.begin

    @property
    def found_nothing(self) -> bool:
        """Whether nothing was chosen and nothing left behind."""
        return not self.parts and self._left_behind is None

    @property
    def low(self) -> int:
        """Where the group goes on."""
        return self.reached if self._left_behind is None else self._left_behind

    def look_at(self, part: Slice, budget: Budget) -> None:
        """Choose of the slice what may be handed out."""
        view = self._view
        passed = part.first_queue_offset
        for stretch in [match for own in self._own(part) for match in view.wanted.selector.matches(own)]:
            self._leave(passed, stretch.first_queue_offset, part)
            self._choose(stretch, budget)
            passed = stretch.first_queue_offset + stretch.count
            if budget.is_spent:
                return
        end = part.first_queue_offset + part.count
        self._leave(passed, end, part)
        self.reached = end

    def _own(self, part: Slice) -> list[Slice]:
        view = self._view
        return stretches(part, _is_of(part, view.wanted.topic)) if view.is_retry else [part]

    def _leave(self, begin: int, end: int, part: Slice) -> None:
        """Leave those of the topic's retries behind that don't match: they wait for who wants them."""
        if begin >= end or self._left_behind is not None or not self._view.is_retry:
            return
        between = part._replace(row=part.row + begin - part.first_queue_offset, count=end - begin)
        for own in self._own(between):
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
                    continue
                view.taken.add(order)
            one = stretch._replace(row=stretch.row + number, count=1)
            self.parts.append(one)
            budget.spend([one])
            if budget.is_spent:
                return


def _key(wanted: Wanted, queue: Queue) -> Key:
    return wanted.group, wanted.topic, wanted.filter, *queue.key


def _matcher(wanted: Wanted, queue: Queue) -> Callable[[Slice], list[Slice]] | None:
    """What finds the messages of a queue that are wanted; None: all are."""
    if queue.topic == wanted.retry_topic:
        return lambda part: stretches(part, _is_of(part, wanted.topic))
    return None if wanted.selector.everything else wanted.selector.matches


def _is_of(part: Slice, topic: str) -> list[bool]:
    return [value == topic for value in values(part, "real_topic")]
