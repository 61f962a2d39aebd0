"""Which messages wait to be routed, as the log's rows make it: rule "one cause, one effect".

A *cause* is a message in a system topic that asks for one effect: to be delivered later, to be
committed, to be tried again. Its effect is the row whose column `cause` holds its position. A frame
is written whole or not at all, so a cause is pending, or its effect is in the log: nothing between.
A discard is the exception: the body of its one row names the dead letters whose effect it is.
docs/routing.md has the states and their letters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pyroaring import BitMap64

from lakemq.model.columns import STORED_BIT
from lakemq.model.names import (
    ACK_TOPIC,
    CHECK_MAX_TOPIC,
    DEAD_LETTER_PREFIX,
    DECISION_TOPIC,
    DISCARD_TOPIC,
    ERASURE_TOPIC,
    HALF_TOPIC,
    NACK_TOPIC,
    OP_TOPIC,
    RECEIVE_TOPIC,
    REDRIVE_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    retry_topic,
)
from lakemq.storage.segment.content import Content
from lakemq.storage.segment.frame import Meta, Run
from lakemq.storage.state.bitmaps import pack, pack_numbers, unpack, unpack_numbers
from lakemq.storage.state.by_group import ByGroup
from lakemq.storage.state.decision_record import Decision, unpack_decisions
from lakemq.storage.state.discard_record import positions_of
from lakemq.storage.state.due_index import DueIndex
from lakemq.storage.state.due_times import DueTimes
from lakemq.storage.state.erasure_record import unpack_erasure
from lakemq.storage.state.open_halves import OpenHalf, OpenHalves
from lakemq.storage.state.receipts import Receipts
from lakemq.storage.state.steps import Steps, copy_each
from lakemq.storage.state.timer_counts import TimerCounts

_COPIED = (
    *("delays", "decided", "halves", "nacks", "nack_targets", "dead", "timers", "dues", "moved", "transactions"),
    *("decisions", "redrives", "recalled", "due_times", "discarded"),
)
CAUSE_MASK = 1 << STORED_BIT["cause"]
STEP = 1_000
"""So many groups' nacks are copied in one step."""
UNKNOWN = ""
"""No group's name: of dead letters in a log of before it was kept whose they are."""
DEAD_MAX = 10_000_000
"""Dead letters that may wait to be redriven, and as many that were discarded: 2 bytes each at worst where they are
neighbours."""
_ROLLED_BACK_IN = (OP_TOPIC, DECISION_TOPIC, CHECK_MAX_TOPIC)


def is_routed(topic: str) -> bool:
    """Whether messages of the topic are causes, or say something about one."""
    return topic in _HANDLERS or topic.startswith(DEAD_LETTER_PREFIX)


def position_of(message_id: str) -> int:
    """The position in an id that the log holds, with a nonce or without."""
    return int(message_id.rpartition(".")[2].partition("-")[0])


class RoutingState:
    """The pending causes of a log by kind, and what must be known of those that are done."""

    def __init__(self) -> None:
        self.delays = BitMap64()
        """Scheduled messages that wait (W) or are decided (D)."""
        self.decided = BitMap64()
        """Those of `delays` whose decision is in the log (D)."""
        self.halves = BitMap64()
        self.nacks = BitMap64()
        self.nack_targets: dict[int, int] = {}
        """By position of a pending nack, that of the message it is about."""
        self.dead = BitMap64()
        """Dead letters that were neither redriven nor discarded nor erased (Q)."""
        self.dead_floor = 0
        """Of those below it that is not known any more."""
        self.discarded = BitMap64()
        """Dead letters that were given up for good (X)."""
        self.discarded_floor = 0
        """Of those below it that aren't among `dead` it is not known whether they were."""
        self.dead_of, self.retries_of = ByGroup(), ByGroup()
        """Whose the dead letters are, and the nacks and those of `delays` that are retries."""
        self.timers = TimerCounts()
        """The due times of `delays` that are not decided."""
        self.dues = DueIndex()
        """Where to find those that are overdue."""
        self.due_times = DueTimes()
        """When each of `delays` is due."""
        self.moved: dict[int, int] = {}
        """Where a scheduled message is now that was stored at the key."""
        self.transactions = OpenHalves()
        self.nacked: dict[str, BitMap64] = {}
        """By group, the positions of messages that it has nacked."""
        self.nacked_of: dict[str, dict[str, BitMap64]] = {}
        """The same by group, then by topic, also of the message that a retry is of, as far as that is known."""
        self.decisions: dict[int, BitMap64] = {}
        """By position, the logged decisions that may be open still; empty: to be read again."""
        self.redrives = BitMap64()
        """Records of redrives that are not finished."""
        self.recalled = BitMap64()
        """Positions of messages that were recalled (R), by the id that was asked for."""
        self.receipts = Receipts()
        """What is handed out."""
        self._min_position = 0
        """What was below, as far as is known, has left the log: copies are made from the lake."""
        self.on_delays: Callable[[list[tuple[int, int]]], None] = lambda delays: None
        self.on_decided: Callable[[list[Decision]], None] = lambda decisions: None
        self.on_check: Callable[[OpenHalf], None] = lambda half: None
        self.on_out: Callable[[], None] = lambda: None
        self.on_effects: Callable[[Meta, Content, Run], None] | None = None
        """Told of a run with effects before their causes are settled."""

    # A frame's effect ------------------------------------------------------------------------

    def apply(self, meta: Meta, content: Content) -> None:
        """Bring the state from before the frame to after it."""
        for run in meta.runs:
            handle = _HANDLERS.get(run.topic)
            if handle is not None:
                handle(self, meta, content, run)
            elif run.topic.startswith(DEAD_LETTER_PREFIX):
                self.dead.add_range(*_range(meta, run))
                self.dead_of.add(run.topic.removeprefix(DEAD_LETTER_PREFIX), *_range(meta, run))
            if meta.columns & CAUSE_MASK:
                if self.on_effects is not None:
                    self.on_effects(meta, content, run)
                self._settle(meta, content, run)

    def _schedule(self, meta: Meta, content: Content, run: Run) -> None:
        first, end = _range(meta, run)
        self.delays.add_range(first, end)
        dues = _values(content, run, "deliver_at_ms")
        for due in dues:
            self.timers.add(due)
        self.dues.add(first, dues, meta.store_time_ms)
        self.due_times.add(first, dues)
        if meta.columns & CAUSE_MASK:
            rows = _rows(content, run, "cause", "retry_topic", "origin_message_id", "real_topic")
            for number, (cause, retry, origin, goes_to) in enumerate(rows):
                if retry is not None:
                    self.retries_of.add(goes_to.removeprefix(RETRY_PREFIX), first + number, first + number + 1)
                if cause is not None and retry is None and cause in self.delays:
                    self.moved[position_of(origin)] = first + number
        self.on_delays(list(zip(range(first, end), dues, strict=True)))

    def _half(self, meta: Meta, content: Content, run: Run) -> None:
        first, end = _range(meta, run)
        self.halves.add_range(first, end)
        rows = _rows(content, run, "transaction_id", "check_times", "group", "deliver_at_ms")
        for position, (transaction_id, check_times, group, due_ms) in zip(range(first, end), rows, strict=True):
            origin = position if transaction_id is None else position_of(transaction_id)
            half = OpenHalf(origin, position, check_times or 0, meta.store_time_ms, group or "", due_ms)
            self.transactions.begin(half)
            if half.check_times:
                self.on_check(half)

    def _operation(self, meta: Meta, content: Content, run: Run) -> None:
        for tag, transaction_id in _rows(content, run, "tag", "transaction_id"):
            if tag != "unknown":
                self.transactions.resolve(position_of(transaction_id), tag, meta.store_time_ms)

    def _nack(self, meta: Meta, content: Content, run: Run) -> None:
        first, end = _range(meta, run)
        self.nacks.add_range(first, end)
        rows = _rows(content, run, "group", "origin_message_id", "real_topic")
        for position, (group, message_id, topic) in zip(range(first, end), rows, strict=True):
            target = position_of(message_id)
            self.nack_targets[position] = target
            self.retries_of.add(group, position, position + 1)
            self.nacked.setdefault(group, BitMap64()).add(target)
            if topic is not None:
                self.nacked_of.setdefault(group, {}).setdefault(topic, BitMap64()).add(target)

    def forget_nacked(self, group: str, topic: str) -> None:
        """The group may nack again what it nacked of the topic, and what nobody knows the topic of; with its retry
        topic, which has messages of all of them, that is all."""
        kept = self.nacked_of.pop(group, {})
        kept.pop(topic, None)
        if topic == retry_topic(group):
            kept = {}
        if kept:
            self.nacked_of[group] = kept
        left = BitMap64().union(*kept.values()) & self.nacked.pop(group, BitMap64())
        if left:
            self.nacked[group] = left

    def _decision(self, meta: Meta, content: Content, run: Run) -> None:
        rows = _rows(content, run, "tag", "body", "origin_message_id")
        for number, (tag, body, origin) in enumerate(rows):
            if tag == "deliver":
                self.decide(meta.first_position + run.row + number, unpack_decisions(body))
            elif tag == "recall":
                self.recalled.add(position_of(origin))

    def decide(self, position: int, decisions: list[Decision]) -> None:
        """Enter the decisions of the record at `position`."""
        fresh = [each for each in decisions if each.cause in self.delays and each.cause not in self.decided]
        for each in fresh:
            self.decided.add(each.cause)
            self.timers.remove(each.due_ms)
        if fresh:
            self.decisions[position] = BitMap64([each.cause for each in fresh])
            self.on_decided(fresh)

    def _receive(self, meta: Meta, content: Content, run: Run) -> None:
        names = _rows(content, run, "group", "retry_topic", "real_topic", "ordering_key")
        self.receipts.hand_out(meta.first_position + run.row, _values(content, run, "body"), names)
        self.on_out()

    def forget_dead_of(self, group: str) -> None:
        """The group was deleted, and its dead letters with it: none is redriven any more."""
        given = self.dead_of.of(group)
        self.dead -= given
        self.discarded -= given
        self.dead_of.forget(group)

    def forget_retries_of(self, group: str) -> None:
        """The group was deleted, and with it what was to be retried for it: none comes to a group of its name."""
        given = self.retries_of.of(group)
        for cause in (given & self.delays) - self.decided:
            self.timers.remove(self.due_times.of(cause))
        for cause in given & self.nacks:
            self.nack_targets.pop(cause, None)
        self.delays -= given
        self.decided -= given
        self.nacks -= given
        self.retries_of.forget(group)

    def _discard(self, meta: Meta, content: Content, run: Run) -> None:
        for body in _values(content, run, "body"):
            given_up = positions_of(body) & self.dead
            self.dead -= given_up
            self.discarded |= given_up

    def _erase(self, meta: Meta, content: Content, run: Run) -> None:
        for body in _values(content, run, "body"):
            erased = unpack_erasure(body)
            self.dead -= erased
            self.discarded -= erased

    def _redrive(self, meta: Meta, content: Content, run: Run) -> None:
        for position, tag in zip(range(*_range(meta, run)), _values(content, run, "tag"), strict=True):
            if tag == "redrive":
                self.redrives.add(position)

    def _settle(self, meta: Meta, content: Content, run: Run) -> None:
        """Causes whose effects are in the run are done."""
        if run.topic == ACK_TOPIC:
            self.receipts.acknowledge(_values(content, run, "cause"))
            return
        rows = _rows(content, run, "cause", "deliver_at_ms", "transaction_id", "origin_message_id", "tag")
        for number, (cause, due, transaction_id, origin, tag) in enumerate(rows):
            if cause is None:
                continue
            where = run.topic, meta.first_position + run.row + number, run.first_queue_offset + number
            if cause in self.receipts.delayed:
                self.receipts.follow(cause, *where)
            if cause in self.receipts.out:
                self.receipts.settle(cause, *where)
            elif cause in self.delays:
                self._settle_delay(cause, due, origin, run.topic)
            elif cause in self.halves:
                self.halves.discard(cause)
                if run.topic != HALF_TOPIC:
                    # A commit to a topic that was deleted is dropped.
                    dropped = run.topic == DECISION_TOPIC and tag == "drop"
                    resolution = "rollback" if run.topic in _ROLLED_BACK_IN and not dropped else "commit"
                    self.transactions.end(position_of(transaction_id), resolution)
            elif cause in self.nacks:
                self.nacks.discard(cause)
                self.nack_targets.pop(cause, None)
            else:
                self.dead.discard(cause)
                self.redrives.discard(cause)

    def _settle_delay(self, cause: int, due: int | None, origin: str | None, topic: str) -> None:
        self.delays.discard(cause)
        if cause in self.decided:
            self.decided.discard(cause)
        elif due is not None:
            self.timers.remove(due)
        if self.moved and topic != SCHEDULE_TOPIC and origin is not None:
            self.moved.pop(position_of(origin), None)

    # Keeping ---------------------------------------------------------------------------------

    def begin_position(self, kind: BitMap64, end: int) -> int:
        """The position of the first pending cause of a kind, or `end`."""
        return kind.min() if kind else end

    def pinned_position(self, end: int) -> int:
        """The first position that must stay in the log for what waits, or `end`. Delays don't pin:
        they are moved on (M)."""
        begin = self._min_position
        first_out = self.receipts.pinned_position(begin, end)
        nacked = [target for target in self.nack_targets.values() if target >= begin]
        return min(self.begin_position(self.halves, end), first_out, *nacked, *self.decisions)

    def waiting_in(self, positions: BitMap64) -> int | None:
        """The first of the positions that something which waits must still be read from, or None."""
        read_once_more = BitMap64([*self.receipts.out, *self.nack_targets.values(), *self.decisions])
        kinds = (self.delays, self.halves, self.nacks, self.redrives, read_once_more)
        found = [both.min() for kind in kinds if (both := kind & positions)] if positions else []
        return min(found, default=None)

    def waiting_between(self, begin: int, end: int) -> dict[str, int]:
        """How much of what waits is at positions `begin ≤ p < end`, in words; what is none is left out."""
        there = BitMap64()
        there.add_range(begin, end)
        counts = {
            "scheduled messages": len(self.delays & there),
            "open transactions": len(self.halves & there),
            "nacks without a decision": len(self.nacks & there),
            "messages that are handed out": sum(begin <= out.message < end for out in self.receipts.out.values()),
            "dead letters": len(self.dead & there),
        }
        return {kind: count for kind, count in counts.items() if count}

    def tidy(self, min_position: int) -> None:
        """Forget what has left the log, but for what is still to be done with it: dead letters and redrives
        are read in the lake then. And decisions that are carried out, and the oldest of very many dead letters, open
        or discarded."""
        if len(self.dead) > DEAD_MAX:
            self.dead_floor = self.dead[len(self.dead) - DEAD_MAX]
            self.dead.remove_range(0, self.dead_floor)
        if len(self.discarded) > DEAD_MAX:
            self.discarded_floor = self.discarded[len(self.discarded) - DEAD_MAX]
            self.discarded.remove_range(0, self.discarded_floor)
        self._min_position = min_position
        self.dead_of.tidy(self.dead | self.discarded)
        self.retries_of.tidy(self.nacks | self.delays)
        self.transactions.forget_below(min_position)
        self.dues.tidy(self.delays)
        self.due_times.tidy(self.delays)
        self.receipts.tidy(min_position)
        if len(self.delays) == len(self.decided):
            self.timers = TimerCounts()  # the due time of a message that damage took isn't known
        self.recalled.remove_range(0, min_position)
        _cut(self.nacked, min_position)
        for group, by_topic in list(self.nacked_of.items()):
            _cut(by_topic, min_position)
            if not by_topic:
                del self.nacked_of[group]
        for position, causes in list(self.decisions.items()):
            if causes and causes.isdisjoint(self.decided):
                del self.decisions[position]

    def copy_in_steps(self) -> Steps[RoutingState]:
        """All of it as it is now, to be dumped by another thread: far less work than a dump. No frame is written
        between the steps."""
        copied = RoutingState()
        for name in _COPIED:
            yield
            setattr(copied, name, getattr(self, name).copy())
        copied.dead_floor, copied.discarded_floor = self.dead_floor, self.discarded_floor
        copied.nacked = yield from copy_each(self.nacked, BitMap64.copy, STEP)
        copied.nacked_of = yield from copy_each(self.nacked_of, _copy_each, STEP)
        copied.dead_of = yield from self.dead_of.copy_in_steps()
        copied.retries_of = yield from self.retries_of.copy_in_steps()
        copied.receipts = yield from self.receipts.copy_in_steps()
        return copied

    def dump(self) -> dict[str, Any]:
        """All of it as JSON values, for a state frame or a snapshot."""
        return {
            "delays": pack(self.delays),
            "decided": pack(self.decided),
            "halves": pack(self.halves),
            "nacks": pack(self.nacks),
            "nack_targets": [pack_numbers(self.nack_targets), pack_numbers(self.nack_targets.values())],
            "dead": pack(self.dead),
            "dead_floor": self.dead_floor,
            "discarded": pack(self.discarded),
            "discarded_floor": self.discarded_floor,
            "dead_of": self.dead_of.dump(self.dead | self.discarded),
            "retries_of": self.retries_of.dump(self.nacks | self.delays),
            "timers": self.timers.dump(),
            "dues": self.dues.dump(self.delays),
            "due_times": self.due_times.dump(self.delays),
            "moved": [pack_numbers(self.moved), pack_numbers(self.moved.values())],
            "transactions": self.transactions.dump(),
            "nacked": {group: pack(positions) for group, positions in self.nacked.items()},
            "nacked_of": [
                [group, topic, pack(positions)]
                for group, by_topic in self.nacked_of.items()
                for topic, positions in by_topic.items()
            ],
            "decisions": pack_numbers(self.decisions),
            "redrives": pack(self.redrives),
            "recalled": pack(self.recalled),
            "receipts": self.receipts.dump(),
        }

    def restore(self, dumped: dict[str, Any]) -> None:
        """Become what `dump` said. A log from before routing has none."""
        if not dumped:
            return
        self.delays, self.decided = unpack(dumped["delays"]), unpack(dumped["decided"])
        self.halves, self.nacks = unpack(dumped["halves"]), unpack(dumped["nacks"])
        self.nack_targets = _unpack_dict(dumped["nack_targets"])
        self.dead, self.dead_floor = unpack(dumped["dead"]), dumped.get("dead_floor", 0)
        self.discarded = unpack(dumped.get("discarded", ""))
        self.discarded_floor = dumped.get("discarded_floor", 0)
        self.dead_of.restore(dumped.get("dead_of", {UNKNOWN: dumped["dead"]}))
        self.retries_of.restore(dumped.get("retries_of", {}))
        self.timers.restore(dumped["timers"])
        self.dues.restore(dumped["dues"])
        if "due_times" in dumped:
            self.due_times.restore(dumped["due_times"], self.delays)
        else:
            self.due_times.restore_coarsely(self.dues.begins(), self.delays)
        self.moved = _unpack_dict(dumped["moved"])
        self.transactions.restore(dumped["transactions"])
        self.nacked = {group: unpack(positions) for group, positions in dumped["nacked"].items()}
        self.nacked_of = {}
        for group, topic, text in dumped.get("nacked_of", ()):
            self.nacked_of.setdefault(group, {})[topic] = unpack(text)
        self.decisions = {position: BitMap64() for position in unpack_numbers(dumped["decisions"])}
        self.redrives, self.recalled = unpack(dumped["redrives"]), unpack(dumped["recalled"])
        self.receipts.restore(dumped.get("receipts", {}))


_HANDLERS: dict[str, Callable[[RoutingState, Meta, Content, Run], None]] = {
    SCHEDULE_TOPIC: RoutingState._schedule,  # pyright: ignore[reportPrivateUsage]
    HALF_TOPIC: RoutingState._half,  # pyright: ignore[reportPrivateUsage]
    OP_TOPIC: RoutingState._operation,  # pyright: ignore[reportPrivateUsage]
    NACK_TOPIC: RoutingState._nack,  # pyright: ignore[reportPrivateUsage]
    DECISION_TOPIC: RoutingState._decision,  # pyright: ignore[reportPrivateUsage]
    RECEIVE_TOPIC: RoutingState._receive,  # pyright: ignore[reportPrivateUsage]
    REDRIVE_TOPIC: RoutingState._redrive,  # pyright: ignore[reportPrivateUsage]
    DISCARD_TOPIC: RoutingState._discard,  # pyright: ignore[reportPrivateUsage]
    ERASURE_TOPIC: RoutingState._erase,  # pyright: ignore[reportPrivateUsage]
}


def _range(meta: Meta, run: Run) -> tuple[int, int]:
    first = meta.first_position + run.row
    return first, first + run.count


def _cut(nacked: dict[str, BitMap64], min_position: int) -> None:
    """Forget what is below."""
    for key, positions in list(nacked.items()):
        positions.remove_range(0, min_position)
        if not positions:
            del nacked[key]


def _copy_each(by_topic: dict[str, BitMap64]) -> dict[str, BitMap64]:
    return {topic: positions.copy() for topic, positions in by_topic.items()}


def _unpack_dict(packed: list[str]) -> dict[int, int]:
    keys, values = map(unpack_numbers, packed)
    return dict(zip(keys, values, strict=True))


def _values(content: Content, run: Run, name: str) -> list[Any]:
    return content.values(name, run.row, run.count)


def _rows(content: Content, run: Run, *names: str) -> Iterator[tuple[Any, ...]]:
    """The run's rows, each with the values of these columns."""
    return zip(*(_values(content, run, name) for name in names), strict=True)
