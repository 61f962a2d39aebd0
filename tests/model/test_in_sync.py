"""Who is in sync, and what that makes confirmed: case by case, and whatever happens."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from lakemq.model.in_sync import (
    RETIRED_MAX,
    InSync,
    Member,
    Record,
    begun,
    confirmed,
    forgotten,
    grown,
    may_replace,
    record_of,
    shrunk,
)
from tests.model.in_sync_fleet import SILENT_MS, Broken, Fleet, Follower

LEADER, ONE, TWO = Member(0, "a"), Member(1, "b"), Member(2, "c")
LOG = "log"
ALONE = Record(0, 1, 0, (LEADER,), LOG)
BOTH = grown(ALONE, ONE)


def test_a_record_grows_and_shrinks_by_one_version_each_and_keeps_its_leader() -> None:
    assert grown(grown(ALONE, TWO), ONE) == Record(0, 1, 2, (LEADER, ONE, TWO), LOG)
    assert shrunk(BOTH, [ONE, LEADER]) == Record(0, 1, 2, (LEADER,), LOG, missing=(1,))
    assert BOTH.replicas == [0, 1]


def test_who_was_a_member_is_missing_until_it_is_back_or_forgotten() -> None:
    gone = shrunk(grown(BOTH, TWO), [ONE, TWO])
    assert gone.missing == (1, 2)
    assert grown(gone, Member(2, "another life")).missing == (1,)
    assert begun(gone, LEADER, 2, LOG).missing == (1, 2)
    assert forgotten(gone, [2]) == gone._replace(version=gone.version + 1, missing=(1,))
    assert record_of(json.loads(json.dumps(gone._asdict()))) == gone
    older = {name: value for name, value in gone._asdict().items() if name != "missing"}
    assert record_of(older) == gone._replace(missing=())


def test_who_is_missing_is_forgotten_in_the_record_too() -> None:
    rules = InSync(shrunk(grown(BOTH, TWO), [ONE, TWO]), 1_000, 0)
    assert rules.missing == [1, 2]
    rules.forget(1)
    assert rules.missing == [2]
    found = rules.propose(0, 0, 0)
    assert found == forgotten(rules.record, [1])
    assert found is not None
    rules.settle(found)
    assert (rules.missing, rules.proposed, rules.propose(0, 0, 0)) == ([2], None, None)
    rules.forget(3)
    assert rules.propose(0, 0, 0) is None


def test_who_is_forgotten_and_comes_back_all_the_same_may_be_missing_again() -> None:
    rules = InSync(shrunk(BOTH, [ONE]), 1_000, 0)
    rules.forget(1)
    rules.hear(ONE, 1, 9, end=9, now_ms=0)
    joined = rules.propose(9, 9, 0)
    assert joined is not None
    assert (joined.replicas, joined.missing) == ([0, 1], ())
    rules.settle(joined)
    left = rules.propose(9, 9, 5_000)
    assert left is not None
    rules.settle(left)
    assert rules.missing == [1]


def test_who_is_about_to_join_counts_as_members_do() -> None:
    fleet = InSync(BOTH, SILENT_MS, 0)
    assert fleet.others == {ONE}
    fleet.hear(TWO, 1, 0, end=0, now_ms=0)
    fleet.propose(0, 0, 0)
    assert fleet.others == {ONE, TWO}


def test_a_record_replaces_just_the_one_before_it() -> None:
    assert may_replace(ALONE, None)
    assert may_replace(BOTH, ALONE)
    assert not may_replace(BOTH, BOTH)
    assert not may_replace(shrunk(BOTH, [ONE]), ALONE)


def test_a_leader_begins_in_its_own_epoch_and_incarnation_with_the_members_that_were() -> None:
    again = Member(0, "again")
    assert begun(None, LEADER, 7, LOG) == Record(0, 7, 0, (LEADER,), LOG)
    assert begun(BOTH, again, 7, "other") == Record(0, 7, 2, (again, ONE), "other")


def test_confirmed_is_the_least_and_never_goes_back() -> None:
    assert confirmed(3, 9, None) == 9
    assert confirmed(3, 9, 7) == 7
    assert confirmed(3, 9, 1) == 3


def test_a_lone_leader_is_bound_by_nobody_and_proposes_nothing() -> None:
    rules = InSync(ALONE, 1_000, 0)
    assert rules.bound() is None
    assert rules.propose(5, 5, 99_999) is None


def test_who_has_caught_up_counts_at_once_and_is_a_member_when_it_has_all_that_is_confirmed() -> None:
    rules = InSync(ALONE, 1_000, 0)
    assert rules.hear(ONE, 1, 0, end=10, now_ms=0)
    assert rules.propose(10, 10, 0) is None
    assert rules.bound() is None  # far behind: nobody waits for it
    assert rules.hear(ONE, 1, 10, end=12, now_ms=50)
    assert rules.propose(12, 12, 50) is None
    assert rules.bound() == 10
    assert rules.joining == ONE
    assert rules.hear(ONE, 1, 12, end=15, now_ms=60)
    record = rules.propose(15, 12, 60)
    assert record == BOTH == rules.proposed
    assert rules.bound() == 12
    rules.settle(BOTH)
    assert (rules.record, rules.proposed, rules.bound()) == (BOTH, None, 12)


def test_who_needs_long_for_what_there_was_does_not_join_yet() -> None:
    rules = InSync(ALONE, 1_000, 0)
    rules.hear(ONE, 1, 0, end=100, now_ms=0)
    rules.hear(ONE, 1, 100, end=150, now_ms=500)
    assert rules.propose(150, 150, 500) is None
    assert rules.joining is None
    rules.hear(ONE, 1, 150, end=160, now_ms=550)
    assert rules.propose(160, 160, 550) is None
    assert rules.joining == ONE


def test_who_joins_and_falls_silent_is_waited_for_no_longer() -> None:
    rules = InSync(ALONE, 1_000, 0)
    rules.hear(ONE, 1, 9, end=9, now_ms=0)
    rules.propose(12, 12, 0)
    assert rules.joining == ONE
    assert rules.propose(12, 12, 1_001) is None
    assert (rules.joining, rules.bound()) == (None, None)


@pytest.mark.parametrize("silent", [True, False])
def test_a_member_is_let_go_when_it_is_silent_or_lacks_what_there_was_and_counts_until_then(silent: bool) -> None:
    rules = InSync(BOTH, 1_000, 0)
    rules.hear(ONE, 1, 5, end=5, now_ms=0)
    for now_ms in range(100, 1_000, 100):
        if not silent:
            rules.hear(ONE, 1, 5, end=8, now_ms=now_ms)
        assert rules.propose(8, 5, now_ms) is None
    if not silent:
        rules.hear(ONE, 1, 5, end=8, now_ms=1_200)
    shrinking = shrunk(BOTH, [ONE])
    assert rules.propose(8, 5, 1_200) == shrinking
    assert rules.bound() == 5  # it may be a member still
    assert rules.propose(8, 5, 1_300) == shrinking
    rules.settle(BOTH)  # nothing came of it
    assert rules.bound() == 5
    rules.settle(shrinking)
    assert rules.bound() is None


def test_a_member_that_says_it_stops_is_let_go_at_once_counts_until_then_and_may_come_back() -> None:
    rules = InSync(BOTH, 1_000, 0)
    rules.hear(ONE, 1, 5, end=5, now_ms=0)
    assert not rules.leave(Member(1, "another life"), 1, 5)
    assert not rules.leave(TWO, 1, 5)
    assert not rules.leave(ONE, 2, 5)
    assert not rules.leave(ONE, 1, 4)  # of its last start: it was heard since
    assert rules.propose(8, 5, 1) is None
    assert rules.leave(ONE, 1, 5)
    assert rules.heard_last(1) is None  # it doesn't come to lead either
    shrinking = shrunk(BOTH, [ONE])
    assert rules.propose(8, 5, 1) == shrinking
    assert rules.bound() == 5
    rules.settle(shrinking)
    assert rules.bound() is None
    assert rules.propose(8, 8, 1) is None
    rules.hear(ONE, 1, 8, end=8, now_ms=2)
    assert rules.propose(8, 8, 2) == grown(shrinking, ONE)


def test_who_was_heard_last_is_a_member_that_is_well() -> None:
    rules = InSync(grown(BOTH, TWO), 1_000, 0)
    rules.hear(ONE, 1, 5, end=5, now_ms=100)
    rules.hear(TWO, 1, 5, end=5, now_ms=200)
    rules.hear(Member(3, "no member"), 1, 5, end=5, now_ms=300)
    assert rules.heard_last(300) == TWO
    rules.hear(ONE, 1, 5, end=5, now_ms=400)
    assert rules.heard_last(400) == ONE
    assert rules.heard_last(1_401) is None
    rules.hear(TWO, 1, 5, end=5, now_ms=1_402)
    assert rules.heard_last(1_402) == TWO
    assert InSync(ALONE, 1_000, 0).heard_last(0) is None


def test_a_leader_that_stood_still_lets_nobody_go_for_that() -> None:
    rules = InSync(BOTH, 1_000, 0)
    rules.hear(ONE, 1, 5, end=5, now_ms=0)
    rules.excuse(60_000, 60_000)
    assert rules.propose(5, 5, 60_000) is None


def test_a_leader_that_looked_at_nobody_for_long_is_as_quick_to_let_go_as_ever() -> None:
    rules = InSync(BOTH, 1_000, 0)
    rules.hear(ONE, 1, 5, end=5, now_ms=90_000)
    rules.excuse(90_000, 90_000)
    assert rules.propose(5, 5, 91_001) == shrunk(BOTH, [ONE])


def test_a_member_that_comes_back_as_another_is_let_go_at_once_and_counts_no_more() -> None:
    rules = InSync(BOTH, 1_000, 0)
    rules.hear(ONE, 1, 5, end=5, now_ms=0)
    again = Member(1, "again")
    assert rules.hear(again, 1, 5, end=5, now_ms=10)
    assert rules.knows(again)
    assert not rules.knows(ONE)
    assert rules.bound() == 0
    assert rules.propose(5, 5, 10) == shrunk(BOTH, [ONE])
    rules.settle(shrunk(BOTH, [ONE]))
    assert rules.propose(5, 5, 10) == grown(shrunk(BOTH, [ONE]), again)
    assert not rules.hear(ONE, 1, 5, end=5, now_ms=20)  # said before, and late


def test_many_incarnations_are_remembered_and_no_more_than_that() -> None:
    rules = InSync(ALONE, 1_000, 0)
    for life in range(RETIRED_MAX + 2):
        assert rules.hear(Member(1, str(life)), 1, 0, end=0, now_ms=0)
    assert rules.hear(Member(1, "0"), 1, 0, end=0, now_ms=0)
    assert not rules.hear(Member(1, str(RETIRED_MAX)), 1, 0, end=0, now_ms=0)


def test_what_is_said_in_another_epoch_or_beyond_the_leaders_end_or_in_its_name_counts_for_nothing() -> None:
    rules = InSync(BOTH, 1_000, 0)
    assert rules.hear(ONE, 2, 5, end=5, now_ms=0)
    assert rules.bound() == 0
    assert not rules.hear(ONE, 1, 6, end=5, now_ms=0)
    assert not rules.hear(Member(0, "x"), 1, 5, end=5, now_ms=0)
    assert rules.bound() == 0


def test_who_is_gone_for_good_is_forgotten_and_a_member_is_not() -> None:
    rules = InSync(ALONE, 1_000, 0)
    rules.hear(ONE, 1, 9, end=9, now_ms=0)
    rules.propose(12, 12, 0)
    assert rules.joining == ONE
    rules.forget(2)
    assert rules.joining == ONE
    rules.forget(1)
    assert (rules.joining, rules.knows(ONE)) == (None, False)
    rules = InSync(BOTH, 1_000, 0)
    rules.hear(ONE, 1, 5, end=5, now_ms=0)
    rules.forget(1)
    assert rules.knows(ONE)


def test_a_leader_is_alone_while_nobody_may_be_a_member_and_knows_its_own_records() -> None:
    assert InSync(ALONE, 1_000, 0).is_alone
    assert not InSync(BOTH, 1_000, 0).is_alone
    rules = InSync(ALONE, 1_000, 0)
    rules.hear(ONE, 1, 9, end=9, now_ms=0)
    assert rules.propose(9, 9, 0) == BOTH
    assert not rules.is_alone  # it may be in force
    assert rules.is_own(BOTH)
    assert not rules.is_own(BOTH._replace(epoch=2))
    assert not rules.is_own(BOTH._replace(leader=1))


class FleetMachine(RuleBasedStateMachine):
    """Whatever happens, in any order."""

    fleet: Fleet

    @initialize()
    def begin(self) -> None:
        self.fleet = Fleet()

    def who(self, number: int) -> Follower:
        return self.fleet.followers[number]

    @rule(count=st.integers(1, 5))
    def write(self, count: int) -> None:
        self.fleet.write(count)

    @rule()
    def flush(self) -> None:
        self.fleet.flush()

    @rule(number=st.integers(0, 1), count=st.integers(1, 9))
    def fetch(self, number: int, count: int) -> None:
        self.fleet.fetch(self.who(number), count)

    @rule(number=st.integers(0, 1))
    def sync(self, number: int) -> None:
        self.fleet.sync(self.who(number))

    @rule(number=st.integers(0, 1), arrives=st.booleans())
    def ask(self, number: int, arrives: bool) -> None:
        self.fleet.ask(self.who(number), arrives)

    @rule(number=st.integers(0, 1))
    def catch_up(self, number: int) -> None:
        who = self.who(number)
        self.fleet.fetch(who, 1_000)
        self.fleet.sync(who)
        self.fleet.ask(who, arrives=True)
        self.fleet.tick("done")

    @rule(data=st.data())
    def hear_late(self, data: st.DataObject) -> None:
        if self.fleet.on_their_way:
            self.fleet.hear(data.draw(st.sampled_from(self.fleet.on_their_way)))

    @rule(outcome=st.sampled_from(["done", "not told", "not done"]))
    def tick(self, outcome: str) -> None:
        self.fleet.tick(outcome)

    @rule(ms=st.sampled_from([1, 50, SILENT_MS // 2, SILENT_MS + 1]))
    def wait(self, ms: int) -> None:
        self.fleet.wait(ms)

    @rule(number=st.integers(0, 1), wiped=st.booleans())
    def crash(self, number: int, wiped: bool) -> None:
        self.fleet.crash(self.who(number), wiped)

    @rule(number=st.integers(0, 1))
    def leave(self, number: int) -> None:
        self.fleet.leave(self.who(number))

    @rule(loses=st.booleans())
    def crash_leader(self, loses: bool) -> None:
        self.fleet.crash_leader(loses)

    @invariant()
    def nothing_acknowledged_is_missing_on_a_member(self) -> None:
        if hasattr(self, "fleet"):
            self.fleet.check()


FleetMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
test_whatever_happens_nothing_acknowledged_is_missing_on_a_member_and_confirmed_never_goes_back = FleetMachine.TestCase


def walk(rules: type[InSync], seed: int) -> Fleet:
    """Something happens many times."""
    chance, fleet = Random(seed), Fleet(rules)
    for _ in range(400):
        fleet.step(chance)
    return fleet


def walk_all(rules: type[InSync], count: int) -> list[Fleet]:
    """That, so often."""
    return [walk(rules, seed) for seed in range(count)]


def test_sets_shrink_and_grow_on_the_way_and_much_is_acknowledged() -> None:
    walks = walk_all(InSync, 60)
    assert sum(each.largest == 3 for each in walks) > 3
    assert sum(each.stored.version for each in walks if each.stored) > 200
    assert sum(each.acknowledged for each in walks) > 1_000


class ForgetsWhatIsProposed(InSync):
    """A shrink is in force as soon as it is proposed."""

    def _counted(self) -> set[Member]:
        record = self.proposed or self.record
        return {each for each in [*record.members, *filter(None, [self.joining])] if each.replica != record.leader}


class JoinsUncounted(InSync):
    """Who is to be a member doesn't count before it is one."""

    def _counted(self) -> set[Member]:
        return {each for each in self.record.members if each.replica != self.record.leader}


class JoinsTooEarly(InSync):
    """A member need not have all that is confirmed."""

    def propose(self, end: int, confirmed_position: int, now_ms: int) -> Record | None:
        return super().propose(end, 0, now_ms)


class KeepsThePlace(InSync):
    """A replica that comes back as another has its place in the set still."""

    def propose(self, end: int, confirmed_position: int, now_ms: int) -> Record | None:
        members = [self._now(each) for each in self.record.members]
        if self.proposed is None and members != list(self.record.members):
            self.proposed = self.record._replace(version=self.record.version + 1, members=tuple(members))
        return super().propose(end, confirmed_position, now_ms)

    def _now(self, member: Member) -> Member:
        known = self._followers.get(member.replica)
        return member if known is None else known.member


class BelievesAnyEpoch(InSync):
    """What it has of an epoch that is over counts."""

    def hear(self, member: Member, epoch: int, durable: int, end: int, now_ms: int) -> bool:
        return super().hear(member, self.record.epoch, durable, end, now_ms)


class ForgetsWhoLeaves(InSync):
    """Nobody who said that it stops counts any more, whatever the record says."""

    def _counted(self) -> set[Member]:
        return {each for each in super()._counted() if not self._followers[each.replica].has_left}


class BelievesTheLate(InSync):
    """What was said in a life that is over makes it the current one again."""

    def hear(self, member: Member, epoch: int, durable: int, end: int, now_ms: int) -> bool:
        self._retired.clear()
        return super().hear(member, epoch, durable, end, now_ms)


@pytest.mark.parametrize(
    "rules",
    [ForgetsWhatIsProposed, JoinsUncounted, JoinsTooEarly, KeepsThePlace, BelievesAnyEpoch, ForgetsWhoLeaves],
)
def test_without_any_one_rule_something_acknowledged_is_missing(rules: type[InSync]) -> None:
    with pytest.raises(Broken):
        walk_all(rules, 1_000)


def test_what_is_late_of_a_life_that_is_over_would_stop_what_goes_on() -> None:
    for rules, stays in ((InSync, True), (BelievesTheLate, False)):
        fleet = rules(BOTH, 1_000, 0)
        again = Member(1, "again")
        fleet.hear(ONE, 1, 5, end=5, now_ms=0)
        fleet.hear(again, 1, 5, end=5, now_ms=0)
        fleet.hear(ONE, 1, 5, end=5, now_ms=0)
        assert fleet.knows(again) == stays
