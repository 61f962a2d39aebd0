"""Replicas of which any may lead, in memory, with all that can go wrong between them and the store of who leads, and
what has to hold all the while under synchronous replication. Nothing here goes by the time: any replica may propose
itself at any moment, so no promise rests on a clock.

A log is a list: at each position stands what was written there, and in which epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from lakemq.model.election import Own, Seal, Standing, elected, standing_of, switched
from lakemq.model.in_sync import InSync, Member, Record, confirmed, may_replace
from tests.model.in_sync_fleet import SILENT_MS, Broken

LOG_ID = "one"
OUTCOMES = ("done", "not told", "late", "not done")
"""What may become of a compare-and-set: it is done and told; done; done some time; or not at all. Who isn't told knows
nothing."""


class Entry(NamedTuple):
    epoch: int
    serial: int


class Rules:
    """What keeps the promises. Tests leave one out each."""

    in_sync: type[InSync] = InSync
    seals = True
    """Who proposes itself follows nobody meanwhile."""
    waits_for_first = True
    """Who leads serves when the first frame of its epoch is confirmed."""
    fences = True
    """Nobody follows, or is heard by, who goes by an older epoch."""

    def may_stand(self, own: Own, record: Record) -> bool:
        return standing_of(own, record) is Standing.MEMBER


class Report(NamedTuple):
    to: tuple[int, int]
    """The replica and the epoch in which it leads."""
    member: Member
    epoch: int
    durable: int
    seen: int


@dataclass
class Leading:
    """What a replica has in mind while it leads."""

    record: Record
    rules: InSync
    first: int
    """The end of its epoch's first frame."""
    confirmed: int = 0
    serves: bool = False


@dataclass
class Replica:
    number: int
    log: list[Entry] = field(default_factory=list[Entry])
    durable: int = 0
    lives: list[str] = field(default_factory=list[str])
    seen: int = 0
    seal: Seal | None = None
    # In memory:
    leading: Leading | None = None
    record: Record | None = None
    """The last that it saw."""
    proposed: Record | None = None
    proposed_end: int = 0
    paused: bool = False
    cut_off: bool = False
    """From the store."""

    @property
    def member(self) -> Member:
        return Member(self.number, self.lives[-1] if self.lives else "")

    @property
    def own(self) -> Own:
        return Own(self.number, self.lives, self.seen, LOG_ID if self.log else "")

    @property
    def highest(self) -> int:
        return max(self.seen, self.seal.epoch if self.seal else 0)


class ElectedFleet:
    """All of it."""

    def __init__(self, rules: type[Rules] = Rules, count: int = 3) -> None:
        self.rules = rules()
        self.now_ms = 0
        self.serial = 0
        self.replicas = [Replica(number) for number in range(count)]
        self.stored: Record | None = None
        self.late: list[Record] = []
        self.on_their_way: list[Report] = []
        self.acknowledged: dict[int, Entry] = {}
        self.given: dict[tuple[int, int], int] = {}
        self.led: dict[int, str] = {}
        for each in self.replicas:
            self.be_another(each)
        first = self.replicas[0]
        first.log, first.durable = [self.next_entry(1, 0)], 1
        self.stored = first.record = Record(0, 1, 0, (first.member,), LOG_ID)
        self.begin_to_lead(first, self.stored, hole=False)

    def be_another(self, who: Replica) -> None:
        self.serial += 1
        who.lives.append(f"{who.number}-{self.serial}")

    def next_entry(self, epoch: int, position: int) -> Entry:
        """What is given that position in that epoch, once."""
        self.serial += 1
        if self.given.setdefault((epoch, position), self.serial) != self.serial:
            raise Broken(f"position {position} of epoch {epoch} is given twice")
        return Entry(epoch, self.serial)

    # The store -------------------------------------------------------------------------------

    def put(self, who: Replica, record: Record, outcome: str) -> bool:
        """A compare-and-set; whether who asks is told that it is done."""
        if who.cut_off or outcome == "not done":
            return False
        if outcome == "late":
            self.late.append(record)
            return False
        done = may_replace(record, self.stored)
        if done:
            self.stored = record
        return done and outcome == "done"

    def arrive_late(self, chance: Random) -> None:
        if self.late:
            record = self.late.pop(chance.randrange(len(self.late)))
            if may_replace(record, self.stored):
                self.stored = record

    # Leading ---------------------------------------------------------------------------------

    def begin_to_lead(self, who: Replica, record: Record, hole: bool = True) -> None:
        tenure = f"{who.number}-{who.lives[-1]}"
        if self.led.setdefault(record.epoch, tenure) != tenure:
            raise Broken(f"epoch {record.epoch} is of two leaders")
        if hole:
            who.log.append(self.next_entry(record.epoch, len(who.log)))
        who.durable = len(who.log)
        who.seen, who.seal, who.proposed, who.record = max(who.seen, record.epoch), None, None, record
        who.leading = Leading(record, self.rules.in_sync(record, SILENT_MS, self.now_ms), len(who.log))
        if not self.rules.waits_for_first:
            self.serve(who, who.leading)
        self.move(who)

    def move(self, who: Replica) -> None:
        """What is confirmed is acknowledged at once."""
        leading = who.leading
        if leading is None:
            return
        leading.confirmed = confirmed(leading.confirmed, who.durable, leading.rules.bound())
        if not leading.serves and leading.confirmed >= leading.first:
            self.serve(who, leading)
        if leading.serves:
            self.acknowledge(who, leading.confirmed)

    def serve(self, who: Replica, leading: Leading) -> None:
        """It is asked from now on. Whoever was told, or shown, something before is shown no less."""
        leading.serves = True
        newest = max((entry.epoch for entry in self.acknowledged.values()), default=0)
        if leading.record.epoch < newest:
            return  # it was replaced before, and doesn't know yet; who asks it is shown what it confirmed
        for position, entry in self.acknowledged.items():
            if position >= len(who.log) or who.log[position] != entry:
                raise Broken(f"replica {who.number} leads and lacks {position}, which was acknowledged")
            if position >= leading.confirmed:
                raise Broken(f"replica {who.number} serves, and doesn't show {position}, which was acknowledged")

    def acknowledge(self, who: Replica, end: int) -> None:
        for position in range(end):
            entry = who.log[position]
            if self.acknowledged.setdefault(position, entry) != entry:
                raise Broken(f"{position} is acknowledged twice: {entry} and {self.acknowledged[position]}")

    def tick(self, who: Replica, outcome: str) -> None:
        """The leader looks at who is in sync."""
        leading = who.leading
        if leading is None:
            return
        record = leading.rules.propose(who.durable, leading.confirmed, self.now_ms)
        self.move(who)
        if record is not None and self.put(who, record, outcome):
            leading.rules.settle(record)
            self.move(who)

    def switch(self, who: Replica, to: Replica, outcome: str) -> None:
        """A planned one: it writes nothing more, and the other has all."""
        leading = who.leading
        if leading is None or not leading.serves or to is who or leading.rules.proposed is not None:
            return
        record = leading.rules.record
        has_all = leading.confirmed == len(who.log) == who.durable
        if has_all and to.member in record.members and leading.rules.joining is None:
            self.put(who, switched(record, to.member), outcome)
            who.leading = None  # whatever became of it: it looks who leads

    # Looking and standing --------------------------------------------------------------------

    def look(self, who: Replica) -> None:
        """It reads who leads."""
        record = self.stored
        if who.cut_off or record is None:
            return
        if who.leading is not None:
            if who.leading.rules.is_own(record):
                who.leading.rules.settle(record)
                self.move(who)
                return
            who.leading = None
        who.record = record
        if who.proposed is not None and record.version >= who.proposed.version:
            won, who.proposed = record == who.proposed, None
            if won:
                self.win(who, record)
                return
        if who.seal is not None and not who.seal.holds(record):
            who.seal = None
        if record.leader == who.number and record.epoch > who.seen and record.members and self.is_member(who, record):
            self.begin_to_lead(who, record)
            return
        who.seen = max(who.seen, record.epoch)

    def is_member(self, who: Replica, record: Record) -> bool:
        return any(each.replica == who.number and each.incarnation in who.lives for each in record.members)

    def stand(self, who: Replica, outcome: str) -> None:
        """It proposes to lead, whether the leader is dead or not."""
        record = who.record
        if who.leading is not None or record is None:
            return
        if who.proposed is None:
            if not self.rules.may_stand(who.own, record) or who.seal is not None:
                return
            who.proposed = elected(record, who.member)
            who.proposed_end = len(who.log)
            if self.rules.seals:
                who.seal = Seal(who.proposed.epoch, who.proposed.version)
        if self.put(who, who.proposed, outcome):
            self.win(who, who.proposed)

    def win(self, who: Replica, record: Record) -> None:
        if not self.rules.seals:
            del who.log[who.proposed_end :]  # it was opened before it proposed
            who.durable = min(who.durable, len(who.log))
        self.begin_to_lead(who, record)

    # Following -------------------------------------------------------------------------------

    def followed(self, who: Replica) -> Replica | None:
        """Whom it asks, if that one answers."""
        if who.leading is not None or who.record is None or who.record.leader == who.number:
            return None
        if who.proposed is not None and self.rules.seals:
            return None
        leader = self.replicas[who.record.leader]
        if leader.leading is None or leader.paused:
            return None
        if self.rules.fences and leader.leading.record.epoch < who.highest:
            return None
        return leader

    def fetch(self, who: Replica, count: int) -> None:
        """It gets what its leader has on disk; what it has otherwise is cut."""
        leader = self.followed(who)
        if leader is None:
            return
        same = 0
        for mine, theirs in zip(who.log, leader.log[: leader.durable], strict=False):
            if mine != theirs:
                break
            same += 1
        del who.log[same:]
        who.durable = min(who.durable, same)
        who.log += leader.log[same : min(same + count, leader.durable)]

    def ask(self, who: Replica, arrives: bool) -> None:
        leader = self.followed(who)
        if leader is None or leader.leading is None:
            return
        epoch = who.log[-1].epoch if who.log else 0
        report = Report((leader.number, leader.leading.record.epoch), who.member, epoch, who.durable, who.highest)
        if arrives:
            self.hear(report)
        else:
            self.on_their_way.append(report)
            del self.on_their_way[:-8]

    def catch_up(self, who: Replica) -> None:
        """All of that, as it goes when nothing is in the way."""
        if (leader := self.followed(who)) is not None:
            for _ in range(2):
                self.fetch(who, len(leader.log))
                self.flush(who)
                self.ask(who, arrives=True)
                self.tick(leader, "done")

    def hear(self, report: Report) -> None:
        number, _ = report.to
        leader = self.replicas[number]
        leading = leader.leading
        if leading is None or leader.paused:
            return
        if self.rules.fences and report.seen > leading.record.epoch:
            return
        leading.rules.hear(report.member, report.epoch, report.durable, leader.durable, self.now_ms)
        self.move(leader)

    # What befalls them -----------------------------------------------------------------------

    def write(self, who: Replica, count: int) -> None:
        leading = who.leading
        if leading is not None and leading.serves:
            for _ in range(count):
                who.log.append(self.next_entry(leading.record.epoch, len(who.log)))

    def flush(self, who: Replica) -> None:
        who.durable = len(who.log)
        self.move(who)

    def crash(self, who: Replica, wiped: bool) -> None:
        """It comes back with what was on its disk, or nothing; what it remembers of who leads is on that too."""
        del who.log[0 if wiped else who.durable :]
        who.durable = len(who.log)
        if wiped:
            who.lives, who.seen, who.seal = [], 0, None
        self.be_another(who)
        who.leading = who.record = who.proposed = None
        who.paused = False

    def start(self, who: Replica, outcome: str) -> None:
        """Who comes back and led stands at once, in an epoch of its own."""
        record = self.stored
        if who.record is not None or who.leading is not None or who.cut_off or record is None:
            return
        who.record = record
        if who.seal is not None and not who.seal.holds(record):
            who.seal = None
        if record.leader == who.number:
            who.seen = max(who.seen, record.epoch)
            self.stand(who, outcome)

    def step(self, chance: Random) -> None:
        """Something happens."""
        who = chance.choice(self.replicas)
        outcome = chance.choice(["done", "done", "done", *OUTCOMES])
        if who.paused:
            if chance.random() < 0.1:
                who.paused = False
            return
        if who.cut_off and chance.random() < 0.1:
            who.cut_off = False
        what: list[tuple[int, Callable[[], object]]] = [
            (12, lambda: self.write(who, chance.randint(1, 3))),
            (10, lambda: self.flush(who)),
            (18, lambda: self.fetch(who, chance.randint(1, 6))),
            (18, lambda: self.ask(who, chance.random() < 0.8)),
            (20, lambda: self.catch_up(who)),
            (3, lambda: self.on_their_way and self.hear(chance.choice(self.on_their_way))),
            (14, lambda: self.tick(who, outcome)),
            (6, lambda: self.wait(chance.choice([10, 10, 100, 700]))),
            (20, lambda: self.look(who)),
            (3, lambda: self.stand(who, outcome)),
            (20, lambda: self.start(who, outcome)),
            (2, lambda: self.arrive_late(chance)),
            (2, lambda: self.crash(who, chance.random() < 0.05)),
            (2, lambda: self.switch(who, chance.choice(self.replicas), outcome)),
            (1, lambda: setattr(who, "paused", True)),
            (1, lambda: setattr(who, "cut_off", True)),
        ]
        chance.choices([act for _, act in what], [weight for weight, _ in what])[0]()

    def wait(self, ms: int) -> None:
        self.now_ms += ms
