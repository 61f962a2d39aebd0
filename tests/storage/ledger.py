"""What clients were told, and whether a log that lives again keeps to it."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum

from tests.storage.harness import Message


class Fate(Enum):
    """What is known of a message."""

    UNKNOWN = "begun, without an answer"
    REFUSED = "refused: nothing of it is stored"
    HANDED = "answered: it survives the process"
    DURABLE = "answered: it survives the machine"
    LOST = "gone with the power, which was allowed; it must not come back"


@dataclass
class Sent:
    """A message. `place` is queue, offset and position, once that was told."""

    body: bytes
    fate: Fate = Fate.UNKNOWN
    place: tuple[int, int, int] | None = None
    batch: int | None = None
    """Of a sink: all messages of a batch, or none."""
    is_erased: bool | None = False
    """None: its erasure was begun, without an answer."""


class Broken(AssertionError):
    """A promise was broken."""


@dataclass
class Ledger:
    """All messages of a run, by number; and the group's offsets: the last that was told to be on disk, and
    those that were tried since."""

    chance: random.Random
    sent: dict[int, Sent] = field(default_factory=dict[int, Sent])
    offset: int = 0
    tried: set[int] = field(default_factory=set[int])
    committed: set[int] = field(default_factory=set[int])
    begun: dict[int, list[Sent]] = field(default_factory=dict[int, list[Sent]])
    erasing: bool = False
    """An erasure that was begun may still be carried out."""

    def send(self, batch: int | None = None) -> Sent:
        """A new message, which is about to be sent."""
        number = len(self.sent)
        size = self.chance.choice((0, 20, 300, 5_000))
        sent = self.sent[number] = Sent(b"%08d|%b" % (number, self.chance.randbytes(size)), batch=batch)
        if batch is not None:
            self.begun.setdefault(batch, []).append(sent)
        return sent

    def flushed(self, position: int) -> None:
        """The log says that all below is on disk."""
        for sent in self.sent.values():
            if sent.fate is Fate.HANDED and sent.place is not None and sent.place[2] < position:
                sent.fate = Fate.DURABLE

    def lose_power(self) -> None:
        """What wasn't promised to survive it may be gone."""
        for sent in self.sent.values():
            if sent.fate is Fate.HANDED:
                sent.fate = Fate.UNKNOWN

    def check(self, found: list[Message], min_position: int, offset: int | None) -> None:
        """Hold what the log says against what was told; raises `Broken`. What it shows now is on disk, and
        what it doesn't must never come."""
        by_number = self._by_number(found)
        _check_order(found)
        self._check_places(by_number)
        for number, sent in self.sent.items():
            message = by_number.get(number)
            if message is None:
                self._check_missing(number, sent, min_position)
            else:
                self._check_there(number, sent, message)
        wanted = {self.offset, *self.tried}
        if (offset or 0) not in wanted:
            raise Broken(f"the group's offset is {offset}, it was one of {wanted}")
        self.offset, self.tried = offset or 0, set()

    def _by_number(self, found: Iterable[Message]) -> dict[int, Message]:
        by_number: dict[int, Message] = {}
        for message in found:
            number = int(message.body[:8])
            if number not in self.sent or self.sent[number].body != message.body:
                raise Broken(f"invented or corrupt: {message}")
            if number in by_number:
                raise Broken(f"twice: {by_number[number]} and {message}")
            by_number[number] = message
        return by_number

    def _check_places(self, by_number: dict[int, Message]) -> None:
        """No position that anyone was told of is another message's."""
        told = {sent.place[2]: number for number, sent in self.sent.items() if sent.place is not None}
        for number, message in by_number.items():
            if told.get(message.position, number) != number:
                raise Broken(f"position {message.position} was message {told[message.position]}'s, is {number}'s")

    def _check_missing(self, number: int, sent: Sent, min_position: int) -> None:
        has_left = sent.place is not None and sent.place[2] < min_position
        if sent.fate in (Fate.HANDED, Fate.DURABLE) and sent.is_erased is False and not has_left:
            raise Broken(f"lost: message {number}, {sent.fate.value}, place {sent.place}")
        if sent.is_erased is None:
            sent.is_erased = True
        if sent.fate is Fate.UNKNOWN and sent.batch is None:
            sent.fate = Fate.LOST

    def _check_there(self, number: int, sent: Sent, message: Message) -> None:
        if sent.fate in (Fate.REFUSED, Fate.LOST):
            raise Broken(f"risen: message {number}, {sent.fate.value}: {message}")
        if sent.is_erased:
            raise Broken(f"erased, and there: message {number}: {message}")
        place = message.queue_id, message.queue_offset, message.position
        if sent.place is not None and sent.place != place:
            raise Broken(f"moved: message {number} was at {sent.place}, is at {place}")
        sent.place, sent.fate = place, Fate.DURABLE
        if not self.erasing:
            sent.is_erased = False

    def check_batches(self, found: list[Message], last: int, min_position: int) -> None:
        """A batch that was committed, or of which anything is there, is there as a whole; raises `Broken`."""
        by_number = self._by_number(found)
        for batch in self.committed:
            if batch > last:
                raise Broken(f"the sink's batch {batch} was committed, its last one is {last}")
        there = {sent.batch for number, sent in self.sent.items() if number in by_number} - {None}
        for batch in there:
            if batch is not None and batch > last:
                raise Broken(f"messages of the sink's batch {batch} are there, its last one is {last}")
        for batch in self.committed | there:
            for sent in self.begun.get(batch or 0, []):
                gone = sent.is_erased is not False or (sent.place is not None and sent.place[2] < min_position)
                if int(sent.body[:8]) not in by_number and not gone and not self._may_have_left(sent, min_position):
                    raise Broken(f"a part of batch {batch} is not there: message {int(sent.body[:8])}")

    def _may_have_left(self, sent: Sent, min_position: int) -> bool:
        return sent.place is None and min_position > 0


def _check_order(found: list[Message]) -> None:
    queues: dict[int, int] = {}
    positions: set[int] = set()
    for message in found:
        if message.position in positions:
            raise Broken(f"two messages at position {message.position}")
        positions.add(message.position)
        if message.queue_offset <= queues.get(message.queue_id, -1):
            raise Broken(f"disorder: {message}")
        queues[message.queue_id] = message.queue_offset
