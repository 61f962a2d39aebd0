"""What is handed out to groups, as the log's receipts and acknowledgements make it.

A receipt is a row in `RECEIVE_TOPIC`, and its position a pending cause while the message is out. Its
one effect is an acknowledgement, another receipt that takes its place, a nack, a retry copy or a dead
letter.
docs/routing.md has the states and their letters.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pyroaring import BitMap64

from lakemq.model.names import NACK_TOPIC, SCHEDULE_TOPIC, retry_topic
from lakemq.storage.state.bitmaps import pack, pack_numbers, unpack, unpack_numbers
from lakemq.storage.state.dues import Dues
from lakemq.storage.state.steps import Steps, copy_each
from lakemq.storage.state.subscription import Cursor, Order, Subscription, Waiters

NO_CAUSE = -1
STEP = 100
"""So many subscriptions are copied in one step."""
LEFT_MAX = 10_000
"""So many places that deleted topics left in retry topics are kept. What is forgotten is part of the log's state: with
another number the same log would make another state."""


class Handed(NamedTuple):
    """The numbers in the body of a row of `RECEIVE_TOPIC`, 64-bit integers: enough to know again what
    is out without a look at the other columns, which are for the query and for people.

    `offset`: of the message in queue `queue_id`; `low`: the group goes on there, but for offsets from
    there on that are handed out; `message`: the message's position; `cause`: the receipt in whose
    place this one is, or `NO_CAUSE`; `resets`: how often the group's place in the queue had been reset
    when the message was chosen.
    """

    offset: int
    low: int
    max_reconsume_times: int
    message: int
    reconsume_times: int
    until_ms: int
    queue_id: int
    cause: int
    resets: int


class Out:
    """A message that is out: who has it, which it is, and until when."""

    __slots__ = (
        "cursor",
        "max_reconsume_times",
        "message",
        "offset",
        "order",
        "reconsume_times",
        "subscription",
        "until_ms",
    )

    def __init__(
        self,
        subscription: Subscription,
        cursor: Cursor,
        order: Order,
        offset: int,
        message: int,
        reconsume_times: int,
        max_reconsume_times: int,
        until_ms: int,
    ) -> None:
        self.subscription = subscription
        self.cursor = cursor
        self.order = order
        self.offset = offset
        self.message = message
        self.reconsume_times = reconsume_times
        self.max_reconsume_times = max_reconsume_times
        self.until_ms = until_ms


BODY_BYTES = 8 * len(Handed._fields)
Named = tuple[str, str | None, str, str | None]
"""Of a row: group, the topic that was received if it isn't that of the queue, the queue's topic, and
the ordering key."""


def unpack_bodies(bodies: Iterable[bytes]) -> Iterator[tuple[int, ...]]:
    """The numbers of each body."""
    numbers = array("q")
    numbers.frombytes(b"".join(bodies))
    columns = [iter(numbers)] * len(Handed._fields)
    return zip(*columns, strict=True)


_NOWHERE = Subscription("", ""), Cursor("", 0)


class Receipts:
    """All that is out, by receipt, and how far each group has come."""

    def __init__(self) -> None:
        self.out: dict[int, Out] = {}
        self.dues = Dues()
        self.subscriptions: dict[tuple[str, str], Subscription] = {}
        """By group and topic."""
        self._left: OrderedDict[tuple[str, str], Subscription] = OrderedDict()
        """Of those of deleted topics, how far they came in their group's retries: the topic may be made again."""
        self._of_group: dict[str, dict[str, Subscription]] = {}
        self._of_topic: dict[str, dict[str, Subscription]] = {}
        self.out_of_group: dict[str, int] = {}
        """How many messages a group has out."""
        self._waiters: dict[tuple[str, str], Waiters] = {}
        self.issued = BitMap64()
        """All receipts that the log holds."""
        self.acked = BitMap64()
        """Those that were acknowledged."""
        self.nacked = BitMap64()
        """Those that were nacked."""
        self.delayed: dict[int, tuple[Subscription, Order]] = {}
        """By position, the nacks of messages that were out, and what these wait in for their retries."""

    def __len__(self) -> int:
        return len(self.out)

    def find(self, group: str, topic: str) -> Subscription | None:
        """How far the group has come in the topic; None before its first receive."""
        return self.subscriptions.get((group, topic))

    def cursor(self, group: str, topic: str, queue: tuple[str, int]) -> Cursor | None:
        """How far the group's receives of the topic have come in a queue, also if only a topic of its name that was
        deleted had any; None before the first."""
        subscription = self.find(group, topic) or self._left.get((group, topic))
        return None if subscription is None else subscription.cursors.get(queue)

    def topics_of(self, group: str) -> set[str]:
        """The topics that the group receives messages of."""
        return set(self._of_group.get(group, ()))

    def groups_of(self, topic: str) -> set[str]:
        """The groups that receive messages of the topic."""
        return set(self._of_topic.get(topic, ()))

    def groups(self) -> set[str]:
        """The groups that receive messages."""
        return set(self._of_group)

    def receipt_of(self, group: str, topic: str, message: int) -> int | None:
        """The receipt of a message that the group has out of the topic, or of its retries; or None."""
        subscription = self.find(group, topic)
        return None if subscription is None else subscription.receipts.get(message)

    def has_passed(self, group: str, topic: str, queue: tuple[str, int], offset: int) -> bool:
        """Whether the group's receives of the topic are done with the message at an offset of that queue,
        or have it out."""
        subscription = self.find(group, topic)
        cursor = None if subscription is None else subscription.cursors.get(queue)
        return cursor is not None and (offset < cursor.low or offset in cursor.ahead)

    def waiters(self, group: str, topic: str) -> Waiters:
        """Who waits for the group's messages of the topic."""
        return self._waiters.setdefault((group, topic), Waiters())

    def floor(self, group: str, topic: str, queue_id: int) -> int | None:
        """The queue's first offset that the group has not finished, None where it received nothing.
        What waits in its retry topic counts as finished here, and as not finished there."""
        return self._floor(self.find(group, topic), topic, queue_id)

    def retry_floor(self, group: str, queue_id: int = 0) -> int | None:
        """`floor` of the group's retry topic, which all its subscriptions share."""
        source = retry_topic(group)
        floors = [self._floor(each, source, queue_id) for each in self._of_group.get(group, {}).values()]
        return min([floor for floor in floors if floor is not None], default=None)

    @staticmethod
    def _floor(subscription: Subscription | None, source: str, queue_id: int) -> int | None:
        cursor = None if subscription is None else subscription.cursors.get((source, queue_id))
        return None if cursor is None else cursor.floor

    # A frame's effect ------------------------------------------------------------------------

    def hand_out(self, first_position: int, bodies: Iterable[bytes], names: Iterable[Named]) -> None:
        """Enter the receipts that begin at a position."""
        dues: dict[int, list[int]] = {}
        place: tuple[object, ...] = ()
        subscription, cursor = _NOWHERE
        retried: dict[Cursor, tuple[Subscription, int]] = {}
        receipt = first_position
        for numbers, (group, topic, source, key) in zip(unpack_bodies(bodies), names, strict=True):
            offset, low, most, message, times, until_ms, queue_id, cause, resets = numbers
            if place != (group, topic, source, queue_id):
                place = group, topic, source, queue_id
                subscription = self._subscription(group, topic or source)
                cursor = subscription.cursor(source, queue_id)
            replaced = None if cause == NO_CAUSE else self._take(cause)
            if replaced is not None:
                order = replaced.order
            elif topic is None:
                order = queue_id if key is None else key
            else:
                order = subscription.order_of_retry(offset, key)
                retried.setdefault(cursor, (subscription, cursor.low))
            cursor.take(offset, low if resets == cursor.resets else cursor.low)
            self._put(receipt, Out(subscription, cursor, order, offset, message, times, most, until_ms))
            dues.setdefault(until_ms, []).append(receipt)
            receipt += 1
        # What was passed over waits no more: it had expired, or was gone. Only now, as each receipt of a receive says
        # where that one goes on, and those after it take their orders from what waits.
        for place_of_retries, (of, begin) in retried.items():
            of.forget_retries_between(begin, place_of_retries.low)
        self.issued.add_range(first_position, receipt)
        for due, receipts in dues.items():
            self.dues.add(due, receipts)

    def _subscription(self, group: str, topic: str) -> Subscription:
        found = self.subscriptions.get((group, topic))
        if found is None:
            found = self._left.pop((group, topic), None) or Subscription(group, topic)
            self._add(found)
        return found

    def _add(self, subscription: Subscription) -> None:
        group, topic = subscription.group, subscription.topic
        self.subscriptions[group, topic] = subscription
        self._of_group.setdefault(group, {})[topic] = self._of_topic.setdefault(topic, {})[group] = subscription

    def _remove(self, subscription: Subscription) -> None:
        group, topic = subscription.group, subscription.topic
        del self.subscriptions[group, topic], self._of_group[group][topic], self._of_topic[topic][group]
        if not self._of_group[group]:
            del self._of_group[group]
        if not self._of_topic[topic]:
            del self._of_topic[topic]

    def _put(self, receipt: int, out: Out) -> None:
        self.out[receipt] = out
        out.cursor.out.add(out.offset)
        out.subscription.receipts[out.message] = receipt
        keys = out.subscription.keys_out
        keys[out.order] = keys.get(out.order, 0) + 1
        group = out.subscription.group
        self.out_of_group[group] = self.out_of_group.get(group, 0) + 1

    def _take(self, receipt: int) -> Out | None:
        """Take the receipt away from what is out."""
        out = self.out.pop(receipt, None)
        if out is not None:
            self.dues.remove(out.until_ms, receipt)
            out.cursor.out.discard(out.offset)
            subscription, of_group = out.subscription, self.out_of_group
            subscription.receipts.pop(out.message, None)
            subscription.drop_key(out.order)
            count = of_group[subscription.group] - 1
            if count:
                of_group[subscription.group] = count
            else:
                del of_group[subscription.group]
        return out

    def acknowledge(self, receipts: Iterable[int]) -> None:
        """These receipts are acknowledged. (What is no receipt that is out was damaged, or forgotten.)"""
        told: set[Subscription] = set()
        for receipt in receipts:
            out = self._take(receipt)
            if out is not None:
                self.acked.add(receipt)
                told.add(out.subscription)
        for subscription in told:
            self._wake_ordered(subscription)

    def settle(self, receipt: int, topic: str, position: int, offset: int) -> None:
        """The effect of a receipt that is out, not an acknowledgement, is at a position of the log and an
        offset of its topic."""
        out = self._take(receipt)
        assert out is not None
        if topic == NACK_TOPIC:
            self.nacked.add(receipt)
        self._wait(out.subscription, out.order, topic, position, offset)

    def follow(self, cause: int, topic: str, position: int, offset: int) -> None:
        """The effect of one of `delayed` is at a position of the log and an offset of its topic."""
        subscription, order = self.delayed.pop(cause)
        subscription.delayed.discard(cause)
        subscription.release(order)
        self._wait(subscription, order, topic, position, offset)

    def _wait(self, subscription: Subscription, order: Order, topic: str, position: int, offset: int) -> None:
        """Let what keeps the order wait, if what is stored there is to be handed out again."""
        if topic == retry_topic(subscription.group):
            subscription.wait_for(offset, order, position)
        elif topic in (NACK_TOPIC, SCHEDULE_TOPIC):
            self._delay(position, subscription, order)
        self._wake_ordered(subscription)

    def _delay(self, position: int, subscription: Subscription, order: Order) -> None:
        self.delayed[position] = subscription, order
        subscription.delayed.add(position)
        subscription.hold(order)

    def _wake_ordered(self, subscription: Subscription) -> None:
        waiters = self._waiters.get((subscription.group, subscription.topic))
        if waiters is not None:
            waiters.wake_ordered()

    def reset(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """The group goes on at these offsets of the topic's queues, and what it has out of them is
        forgotten."""
        own = list(self._of_group.get(group, {}).values())
        cursors = {
            cursor: offset
            for subscription in own
            for queue_id, offset in offsets.items()
            if (cursor := subscription.cursors.get((topic, queue_id))) is not None
        }
        receipts = [receipt for subscription in own for receipt in subscription.receipts.values()]
        for receipt in [receipt for receipt in receipts if self.out[receipt].cursor in cursors]:
            self._take(receipt)
        for cursor, offset in cursors.items():
            cursor.reset(offset)
        if topic == retry_topic(group):
            for each in [left for (of, _), left in self._left.items() if of == group]:
                for queue_id, offset in offsets.items():
                    if (topic, queue_id) in each.cursors:
                        each.cursors[topic, queue_id].reset(offset)
        for subscription in own:
            if topic == retry_topic(group):
                subscription.forget_retries_below(min(offsets.values(), default=0))
            waiters = self._waiters.get((group, subscription.topic))
            if waiters is not None:
                waiters.wake()

    def forget_topic(self, topic: str) -> None:
        """The topic was deleted: nobody receives of it. (What is out of it may still be acknowledged.)"""
        forgotten = [each for each in self._of_topic.get(topic, {}).values() if not each.receipts]
        self._forget(forgotten)
        for each in forgotten:
            self._leave(each)

    def _leave(self, subscription: Subscription) -> None:
        """Keep how far it came in the group's retries: those that it is done with are there still."""
        group, topic = subscription.group, subscription.topic
        left = Subscription(group, topic)
        own = {key: cursor for key, cursor in subscription.cursors.items() if key[0] == retry_topic(group) != topic}
        left.cursors |= own
        if own:
            self._left[group, topic] = left
        while len(self._left) > LEFT_MAX:
            self._left.popitem(last=False)

    def forget_idle(self, group: str, topic: str) -> None:
        """Nobody uses the group's place in the topic; if nothing is out or waits there, it is forgotten."""
        subscription = self.find(group, topic)
        if subscription is not None and subscription.is_idle:
            self._forget([subscription])

    def forget_group(self, group: str) -> None:
        """The group was deleted."""
        self._forget(list(self._of_group.get(group, {}).values()))
        for key in [key for key in self._left if key[0] == group]:
            del self._left[key]

    def _forget(self, subscriptions: list[Subscription]) -> None:
        for subscription in subscriptions:
            for receipt in list(subscription.receipts.values()):
                self._take(receipt)
            for position in subscription.delayed:
                del self.delayed[position]
            self._remove(subscription)
            waiters = self._waiters.get((subscription.group, subscription.topic))
            if waiters is not None:
                waiters.wake()

    # Keeping ---------------------------------------------------------------------------------

    def first_receipt(self, end: int) -> int:
        """The first receipt that is out, or `end`."""
        return next(iter(self.out), end)

    def pinned_position(self, begin: int, end: int) -> int:
        """The first message that is out and at `begin` or later, or `end`: it must stay in the log."""
        return min((out.message for out in self.out.values() if out.message >= begin), default=end)

    def tidy(self, min_position: int) -> None:
        """Forget what has left the log. Where groups are in their topics stays: what they have not received
        may be in the lake."""
        self.issued.remove_range(0, min_position)
        self.acked.remove_range(0, min_position)
        self.nacked.remove_range(0, min_position)
        for key, waiters in list(self._waiters.items()):
            if not waiters.any and not waiters.ordered:
                del self._waiters[key]

    def copy_in_steps(self) -> Steps[Receipts]:
        """All of it as it is now, to be dumped. No frame is written between the steps."""
        copied = Receipts()
        copied.out, copied.delayed = self.out.copy(), self.delayed.copy()
        copied.subscriptions = yield from copy_each(self.subscriptions, Subscription.copy, STEP)
        copied._left = OrderedDict((yield from copy_each(self._left, Subscription.copy, STEP)))
        copied.issued, copied.acked, copied.nacked = self.issued.copy(), self.acked.copy(), self.nacked.copy()
        return copied

    def dump(self) -> dict[str, Any]:
        """All of it as JSON values, for a state frame or a snapshot."""
        outs = self.out.values()
        keys = list(self.subscriptions)
        numbers = {key: number for number, key in enumerate(keys)}
        columns: list[Iterable[int]] = [
            self.out,
            [numbers[out.subscription.group, out.subscription.topic] for out in outs],
            [int(out.cursor.source != out.subscription.topic) for out in outs],
            [out.cursor.queue_id for out in outs],
            [out.offset for out in outs],
            [out.message for out in outs],
            [out.reconsume_times for out in outs],
            [out.max_reconsume_times for out in outs],
            [out.until_ms for out in outs],
        ]
        return {
            "out": [pack_numbers(column) for column in columns],
            "orders": [out.order for out in outs],
            "subscriptions": [subscription.dump() for subscription in self.subscriptions.values()],
            **({"left": [left.dump() for left in self._left.values()]} if self._left else {}),
            "issued": pack(self.issued),
            "acked": pack(self.acked),
            "nacked": pack(self.nacked),
            "delayed": [
                [position, numbers[subscription.group, subscription.topic], order]
                for position, (subscription, order) in self.delayed.items()
            ],
        }

    def restore(self, dumped: dict[str, Any]) -> None:
        """Become what `dump` said. A log from before there were receipts has none."""
        self.__init__()
        if not dumped:
            return
        subscriptions = [Subscription.restore(each) for each in dumped["subscriptions"]]
        for each in subscriptions:
            self._add(each)
        for each in map(Subscription.restore, dumped.get("left", ())):
            self._left[each.group, each.topic] = each
        columns = zip(*map(unpack_numbers, dumped["out"]), strict=True)
        for row, order in zip(columns, dumped["orders"], strict=True):
            receipt, number, is_retry, queue_id, offset, message, times, most, until_ms = row
            subscription = subscriptions[number]
            source = retry_topic(subscription.group) if is_retry else subscription.topic
            cursor = subscription.cursor(source, queue_id)
            self._put(receipt, Out(subscription, cursor, order, offset, message, times, most, until_ms))
            self.dues.add(until_ms, (receipt,))
        for position, number, order in dumped["delayed"]:
            self._delay(position, subscriptions[number], order)
        self.issued, self.acked, self.nacked = (unpack(dumped[name]) for name in ("issued", "acked", "nacked"))
