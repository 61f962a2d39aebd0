"""A leader that acknowledges by its lease, and who takes its place: never do both acknowledge, whatever comes between
the steps of each, and whoever crashes between them and comes back. Here all clocks go equally fast, and a store has one
order of all that is done with it."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from lakemq.model.beat import Beat
from lakemq.model.election import Lease, Pulse, elected, leads_by, serves_from_ms
from lakemq.model.in_sync import Member, Record, grown
from tests.model.in_sync_fleet import Broken

LEASE_MS = 900
MEMBERS = tuple(Member(number, str(number)) for number in range(3))
FIRST = Record(0, 1, 0, MEMBERS, "log")


class Rules:
    """What keeps the promise. Tests leave one out each."""

    reads_after_its_beat = True
    """A leader's lease is renewed where the record names it after its beat has arrived."""
    looks_again = True
    """Who leads looks at the last leader's beat, and waits where it is new."""
    counts_from_sending = True
    """A lease is counted from when the beat was sent."""
    waits_as_it_comes_back = True
    """Who starts as the leader that the record names waits for a lease, whatever beat it finds."""


class One:
    """A replica: each of its steps is one thing done with the store."""

    def __init__(self, number: int) -> None:
        self.member = MEMBERS[number]
        self.pulse = Pulse(LEASE_MS)
        self.lease = Lease(LEASE_MS)
        self.record: Record | None = None
        """By which it leads."""
        self.serves_ms: int | None = None
        self.step = ""
        self.sent_ms = 0
        self.count = 0
        self.seen: Record | None = None
        self.judged: Beat | None = None
        self.comes_back = False

    def may_acknowledge(self, now_ms: int) -> bool:
        return self.serves_ms is not None and now_ms >= self.serves_ms and self.lease.holds(now_ms)


class Race:
    """All of them, and the store."""

    def __init__(self, rules: type[Rules] = Rules) -> None:
        self.rules = rules()
        self.now_ms = 0
        self.record = FIRST
        self.beat: Beat | None = None
        self.replicas = [One(number) for number in range(3)]
        self.acknowledged: set[int] = set()
        self.begin_to_lead(self.replicas[0], FIRST, 0)

    def begin_to_lead(self, who: One, record: Record, serves_ms: int) -> None:
        who.record, who.serves_ms, who.step, who.lease = record, serves_ms, "", Lease(LEASE_MS)

    def wait(self, ms: int) -> None:
        """Whoever may acknowledge does, all the while."""
        for _ in range(0, ms, 10):
            self.now_ms += 10
            self.look_at_promises()

    def look_at_promises(self) -> None:
        both = [each for each in self.replicas if each.may_acknowledge(self.now_ms)]
        self.acknowledged.update(each.record.epoch for each in both if each.record is not None)
        if len(both) > 1:
            raise Broken(f"at {self.now_ms} {[each.record for each in both]} acknowledge")

    def go_on(self, who: One) -> None:
        """Its next step."""
        if who.record is not None:
            self.lead(who, who.record)
        else:
            self.follow(who)
        self.look_at_promises()

    def lead(self, who: One, record: Record) -> None:
        if who.step == "":  # the store is asked whether it leads
            who.sent_ms = self.now_ms
            who.step = "put" if leads_by(self.record, record) else "over"
        elif who.step == "put":
            who.count += 1
            self.beat = Beat(record.epoch, record.leader, who.count, "")
            who.step = "read"
            if not self.rules.counts_from_sending:
                who.sent_ms = self.now_ms
            if not self.rules.reads_after_its_beat:
                who.lease.renew(who.sent_ms)
        elif who.step == "read":
            still = leads_by(self.record, record)
            if still:
                who.lease.renew(who.sent_ms if self.rules.counts_from_sending else self.now_ms)
            who.step = "" if still else "over"
        if who.step == "over":
            who.record = who.serves_ms = None
            who.step, who.pulse = "", Pulse(LEASE_MS)

    def follow(self, who: One) -> None:
        if who.step == "":
            who.sent_ms, who.seen, who.step = self.now_ms, self.record, "beat"
        elif who.step == "beat":
            who.judged, who.comes_back = self.beat, False
            who.pulse.see(who.seen, self.beat, who.sent_ms, self.now_ms)
            who.step = "stand" if who.pulse.is_dead() else ""
        elif who.step == "start":
            who.seen, who.judged, who.comes_back = self.record, self.beat, True
            leads = who.seen.leader == who.member.replica and who.member in who.seen.members
            who.step = "stand" if leads else ""
        elif who.step == "stand":
            assert who.seen is not None
            who.step = ""
            if self.record == who.seen and who.member in self.record.members:
                who.seen = self.record = elected(self.record, who.member)
                who.step = "won"
        elif who.step == "won":
            assert who.seen is not None
            found = self.beat if self.rules.looks_again else who.judged
            waits = who.comes_back and self.rules.waits_as_it_comes_back
            self.begin_to_lead(
                who, who.seen, serves_from_ms(who.judged, found, who.seen.epoch, self.now_ms, LEASE_MS, waits)
            )

    def crash(self, who: One) -> None:
        """It ends where it is, and begins anew with what its disk has: which member it is."""
        who.record = who.serves_ms = None
        who.step, who.pulse, who.lease, who.count = "start", Pulse(LEASE_MS), Lease(LEASE_MS), 0

    def join(self, who: One) -> None:
        """It is in sync again."""
        if who.record is None and who.member not in self.record.members:
            self.record = grown(self.record, who.member)

    def step(self, chance: Random) -> None:
        """Something happens."""
        who = chance.choice(self.replicas)
        what = chance.random()
        if what < 0.55:
            for _ in range(chance.choice([1, 1, 2, 3])):
                self.go_on(who)
        elif what < 0.6:
            self.join(who)
        elif what < 0.65:
            self.crash(who)
        else:
            self.wait(chance.choice([10, 50, 50, 200, 400, LEASE_MS]))


class RaceMachine(RuleBasedStateMachine):
    """Whatever happens, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.race = Race()

    @rule(number=st.integers(0, 2), times=st.integers(1, 3))
    def go_on(self, number: int, times: int) -> None:
        for _ in range(times):
            self.race.go_on(self.race.replicas[number])

    @rule(number=st.integers(0, 2))
    def join(self, number: int) -> None:
        self.race.join(self.race.replicas[number])

    @rule(number=st.integers(0, 2))
    def crash(self, number: int) -> None:
        self.race.crash(self.race.replicas[number])

    @rule(ms=st.sampled_from([10, 50, 200, 400, LEASE_MS]))
    def wait(self, ms: int) -> None:
        self.race.wait(ms)


RaceMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
test_whatever_happens_no_two_acknowledge_at_a_time = RaceMachine.TestCase


def walk(rules: type[Rules], seed: int) -> Race:
    chance, race = Random(seed), Race(rules)
    for _ in range(200):
        race.step(chance)
    return race


def walk_all(rules: type[Rules], count: int) -> list[Race]:
    return [walk(rules, seed) for seed in range(count)]


def test_leaders_change_on_the_way_and_many_acknowledge() -> None:
    walks = walk_all(Rules, 300)
    assert sum(len(each.acknowledged) >= 2 for each in walks) > 30


class ReadsNoMore(Rules):
    """Its beat has arrived: that is enough."""

    reads_after_its_beat = False


class BelievesWhatItJudgedBy(Rules):
    """A beat that came as it proposed isn't looked at."""

    looks_again = False


class CountsFromTheAnswer(Rules):
    """A lease begins when it is known that the beat has arrived."""

    counts_from_sending = False


class ComesBackAtOnce(Rules):
    """It leads by the record, and the beat that it finds doesn't change."""

    waits_as_it_comes_back = False


@pytest.mark.parametrize("rules", [ReadsNoMore, BelievesWhatItJudgedBy, CountsFromTheAnswer])
def test_without_any_one_rule_two_acknowledge_at_a_time(rules: type[Rules]) -> None:
    with pytest.raises(Broken):
        walk_all(rules, 5_000)


def play(rules: type[Rules], script: str) -> Race:
    """Numbers are replicas, each of which does its next step; `-` is a lease that passes, `!` ends the next one, which
    comes back."""
    race = Race(rules)
    crashes = False
    for what in script.replace(" ", ""):
        if what == "-":
            race.wait(LEASE_MS)
        elif what == "!":
            crashes = True
        else:
            (race.crash if crashes else race.go_on)(race.replicas[int(what)])
            crashes = False
    return race


def test_who_comes_back_at_once_may_acknowledge_beside_the_leader_before_it() -> None:
    """Rarely: by chance it took seconds to find."""
    script = "22 - 22 000 2 222 !2 222222"  # 2 is elected while 0 renews its lease, crashes, and comes back
    play(Rules, script)
    with pytest.raises(Broken):
        play(ComesBackAtOnce, script)


def test_a_beat_that_stood_still_and_hides_a_newer_leaders_makes_nobody_acknowledge_beside_that() -> None:
    """0 stands still before it beats, 2 leads meanwhile and beats, 0 puts its beat in place of that one, and 1, which
    has heard nothing, takes the lead."""
    play(Rules, "1 0000000 1 0 22 - 00 222 11 - 1 2222 0 111111")
