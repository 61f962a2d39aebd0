"""A leader and its followers in memory, with all that can go wrong between them, and what has to hold of the in-sync
set all the while. A log is a list: at each position stands the epoch in which it was written."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from lakemq.model.in_sync import InSync, Member, Record, begun, confirmed, may_replace

SILENT_MS = 1_000
LEADER = 0


class Broken(AssertionError):
    """A promise is."""


def agree(one: list[int], other: list[int]) -> int:
    """How far both logs are the same."""
    return next(
        (at for at, pair in enumerate(zip(one, other, strict=False)) if len(set(pair)) > 1), min(len(one), len(other))
    )


@dataclass
class Follower:
    """One follower: what it has written, and how much of that is on its disk."""

    replica: int
    life: int = 0
    log: list[int] = field(default_factory=list[int])
    durable: int = 0
    clean: bool = False

    @property
    def member(self) -> Member:
        return Member(self.replica, f"{self.replica}-{self.life}")


Report = tuple[Member, int, int]


class Fleet:
    """All of it. `Rules` decides for the leader; tests give rules that are wrong."""

    def __init__(self, rules: type[InSync] = InSync, followers: int = 2) -> None:
        self._rules = rules
        self.now_ms = 0
        self.epoch = 1
        self.log: list[int] = [1] * 3
        self.end = 3
        self.stored: Record | None = None
        self.largest = 1
        self.lives = 0
        self.followers = [Follower(number + 1) for number in range(followers)]
        self.on_their_way: list[Report] = []
        self.acknowledged = 0
        self.confirmed = 0
        self.start_leader()

    # What happens ----------------------------------------------------------------------------

    def start_leader(self) -> None:
        """It begins with the record that is stored, and knows nothing of what was confirmed."""
        self.lives += 1
        record = begun(self.stored, Member(LEADER, f"0-{self.lives}"), self.epoch, "log")
        if self.stored is not None:
            assert may_replace(record, self.stored)
            self.stored = record
        self.rules = self._rules(record, SILENT_MS, self.now_ms)
        self.confirmed = 0
        self.move()

    def write(self, count: int) -> None:
        self.log += [self.epoch] * count

    def flush(self) -> None:
        self.end = len(self.log)
        self.move()

    def crash_leader(self, loses: bool) -> None:
        """What was not flushed is lost, or more, but nothing that is confirmed; then another epoch begins beyond all
        that was given."""
        given = len(self.log)
        if loses:
            del self.log[max(self.acknowledged, min(self.end, self.acknowledged + 1)) :]
            self.epoch += 1
            self.log += [self.epoch] * (given + 1 - len(self.log))
        self.end = len(self.log)
        self.start_leader()

    def fetch(self, who: Follower, count: int) -> None:
        """It gets what the leader has on its disk, unless its own log is another."""
        have = len(who.log)
        if self.log[: self.end][:have] == who.log:
            who.log += self.log[have : min(have + count, self.end)]

    def sync(self, who: Follower) -> None:
        who.durable = len(who.log)

    def ask(self, who: Follower, arrives: bool) -> None:
        """Its question: it arrives, or later, or never."""
        report = who.member, who.log[-1] if who.log else 0, who.durable
        if arrives:
            self.hear(report)
        else:
            self.on_their_way.append(report)
            del self.on_their_way[:-8]

    def hear(self, report: Report) -> None:
        self.rules.hear(*report, self.end, self.now_ms)
        self.move()

    def leave(self, who: Follower) -> None:
        """It says that it stops, and is itself when it comes back."""
        self.rules.leave(who.member, who.log[-1] if who.log else 0, len(who.log))
        self.move()

    def crash(self, who: Follower, wiped: bool) -> None:
        """It comes back as another, with what was on its disk, or nothing."""
        who.life += 1
        del who.log[0 if wiped else who.durable :]
        who.durable = len(who.log)

    def wait(self, ms: int) -> None:
        self.now_ms += ms

    def tick(self, outcome: str) -> None:
        """The leader looks at the set. A compare-and-set is done and told, done and not told, or not done."""
        record = self.rules.propose(self.end, self.confirmed, self.now_ms)
        self.move()
        if record is None:
            return
        if outcome != "not done" and may_replace(record, self.stored):
            self.stored = record
            self.largest = max(self.largest, len(record.members))
        if outcome == "done" and self.stored is not None:
            self.rules.settle(self.stored)
        self.move()

    def move(self) -> None:
        """What is confirmed is answered at once."""
        before = self.confirmed
        self.confirmed = confirmed(before, self.end, self.rules.bound())
        if self.confirmed < before:
            raise Broken(f"confirmed goes back from {before} to {self.confirmed}")
        self.acknowledged = max(self.acknowledged, self.confirmed)
        self.check()

    # What has to hold ------------------------------------------------------------------------

    def check(self) -> None:
        """Nothing that was acknowledged is missing on the disk of any member of the record that is stored."""
        if self.acknowledged > self.end:
            raise Broken("the leader's own disk lacks what is acknowledged")
        members = set(self.stored.members if self.stored else ())
        for who in self.followers:
            if who.member in members:
                there = agree(who.log[: who.durable], self.log)
                if there < self.acknowledged:
                    raise Broken(f"{who.member} has {there} of {self.acknowledged}")

    def step(self, chance: Random) -> None:
        """Something happens."""
        who = chance.choice(self.followers)
        what = chance.choices(
            [
                lambda: self.write(chance.randint(1, 4)),
                self.flush,
                lambda: self.fetch(who, chance.randint(1, 8)),
                lambda: self.sync(who),
                lambda: self.ask(who, chance.random() < 0.8),
                lambda: self.on_their_way and self.hear(chance.choice(self.on_their_way)),
                lambda: self.tick(chance.choice(["done", "done", "done", "not told", "not done"])),
                lambda: self.wait(chance.choice([10, 10, 100, 700])),
                lambda: self.crash(who, chance.random() < 0.3),
                lambda: self.crash_leader(chance.random() < 0.5),
                lambda: self.leave(who),
            ],
            [10, 10, 14, 12, 18, 3, 18, 8, 2, 1, 1],
        )[0]
        what()
        self.check()
