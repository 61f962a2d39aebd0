"""Who leads next: case by case, and whatever happens to the replicas and to the store."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from lakemq.model.beat import Beat
from lakemq.model.election import (
    Lease,
    Own,
    Pulse,
    Seal,
    Standing,
    delay_ms,
    elected,
    forced,
    leads_by,
    may_lead,
    serves_from_ms,
    standing_of,
    switched,
)
from lakemq.model.in_sync import InSync, Member, Record
from tests.model.election_fleet import OUTCOMES, ElectedFleet, Replica, Rules
from tests.model.in_sync_fleet import SILENT_MS, Broken

ZERO, ONE, TWO = Member(0, "a"), Member(1, "b"), Member(2, "c")
RECORD = Record(0, 3, 7, (ZERO, ONE, TWO), "log")
LEASE_MS = 900


def own(replica: int = 1, lives: tuple[str, ...] = ("b",), epoch: int = 3, log_id: str = "log") -> Own:
    return Own(replica, lives, epoch, log_id)


def test_an_elected_leader_begins_the_next_epoch_without_the_one_before() -> None:
    assert elected(RECORD, Member(1, "again")) == Record(1, 4, 8, (Member(1, "again"), TWO), "log", missing=(0,))


def test_a_leader_that_comes_back_keeps_its_members() -> None:
    assert elected(RECORD, Member(0, "again")) == Record(0, 4, 8, (Member(0, "again"), ONE, TWO), "log")


def test_who_hands_over_stays_in_sync() -> None:
    assert switched(RECORD, TWO) == Record(2, 4, 8, (ZERO, ONE, TWO), "log")


def test_who_leads_by_order_is_alone_beyond_all_epochs_that_it_knows() -> None:
    assert forced(RECORD, TWO, 2) == Record(2, 4, 8, (TWO,), "log", missing=(0, 1))
    assert forced(RECORD, TWO, 9) == Record(2, 10, 8, (TWO,), "log", missing=(0, 1))


def test_a_record_is_the_same_leader_s_while_others_come_and_go_and_no_other_life_s() -> None:
    assert leads_by(RECORD, RECORD)
    assert leads_by(RECORD._replace(version=9, members=(ZERO,)), RECORD)
    assert not leads_by(RECORD._replace(epoch=4), RECORD)
    assert not leads_by(RECORD._replace(members=(Member(0, "another"), ONE, TWO)), RECORD)
    assert not leads_by(RECORD._replace(log_id="another"), RECORD)


def test_a_successor_waits_for_a_lease_from_when_it_read_a_beat_that_it_had_not_judged_by() -> None:
    old, new = Beat(3, 0, 1, ""), Beat(3, 0, 2, "")
    assert serves_from_ms(old, old, 4, 1_000, LEASE_MS, comes_back=False) == 1_000
    assert serves_from_ms(None, None, 4, 1_000, LEASE_MS, comes_back=False) == 1_000
    assert serves_from_ms(old, new, 4, 1_000, LEASE_MS, comes_back=False) == 1_900


def test_a_beat_of_an_epoch_before_the_last_may_hide_one_of_the_last() -> None:
    beat = Beat(2, 0, 1, "")
    assert serves_from_ms(beat, beat, 4, 1_000, LEASE_MS, comes_back=False) == 1_900


def test_who_comes_back_as_the_leader_waits_for_a_lease_whatever_beat_there_is() -> None:
    for beat in (None, Beat(3, 0, 1, ""), Beat(3, 1, 1, "")):
        assert serves_from_ms(beat, beat, 4, 1_000, LEASE_MS, comes_back=True) == 1_900


def test_a_member_may_lead_also_in_a_later_life_of_its_folder_and_with_its_own_log_alone() -> None:
    assert may_lead(own(), RECORD)
    assert may_lead(own(lives=("b", "later")), RECORD)
    assert not may_lead(own(lives=("later",)), RECORD)
    assert not may_lead(own(replica=3), RECORD)
    assert not may_lead(own(log_id="another"), RECORD)


def test_what_a_replica_is_by_the_record() -> None:
    assert standing_of(own(), RECORD) is Standing.MEMBER
    assert standing_of(own(lives=()), RECORD) is Standing.OUTSIDE
    assert standing_of(own(epoch=4), RECORD) is Standing.REFUSING
    assert standing_of(own(epoch=1), None) is Standing.REFUSING
    assert standing_of(own(epoch=0), None) is Standing.WAITING
    assert standing_of(own(replica=0, epoch=0, log_id=""), None) is Standing.FIRST


def test_a_seal_holds_until_its_version_or_a_later_one_is_in_force() -> None:
    seal = Seal(4, 8)
    assert seal.holds(None)
    assert seal.holds(RECORD)
    assert not seal.holds(RECORD._replace(version=8))


def test_candidates_wait_for_a_part_of_the_lease() -> None:
    assert (delay_ms(0.0, 1_000), delay_ms(1.0, 1_000)) == (0, 200)


def see(pulse: Pulse, count: int, *times_ms: int, epoch: int = 3) -> None:
    for now_ms in times_ms:
        pulse.see(RECORD._replace(epoch=epoch), Beat(epoch, 0, count, ""), now_ms)


def test_a_leader_is_dead_when_its_beat_stays_the_same_for_a_lease() -> None:
    pulse = Pulse(LEASE_MS)
    assert not pulse.is_dead()
    see(pulse, 1, 0, 300, 600)
    assert not pulse.is_dead()
    see(pulse, 1, 900)
    assert pulse.is_dead()
    see(pulse, 2, 1_000)
    assert not pulse.is_dead()


def test_a_leader_that_has_given_no_sign_of_life_yet_has_a_lease_from_when_it_was_seen() -> None:
    pulse = Pulse(LEASE_MS)
    for now_ms in (0, 400, 800):
        pulse.see(RECORD, Beat(2, 0, 5, ""), now_ms)
        assert not pulse.is_dead()
    see(pulse, 1, 1_000, epoch=4)
    assert not pulse.is_dead()


def test_that_others_are_in_sync_is_no_sign_of_life() -> None:
    pulse, beat = Pulse(LEASE_MS), Beat(3, 0, 1, "")
    for version, now_ms in enumerate((0, 450, 900)):
        pulse.see(RECORD._replace(version=version), beat, now_ms)
    assert pulse.is_dead()
    pulse.see(None, None, 1_000)
    assert not pulse.is_dead()


def test_who_stood_still_itself_holds_nobody_for_dead() -> None:
    pulse = Pulse(LEASE_MS)
    see(pulse, 1, 0, 5_000)
    assert not pulse.is_dead()
    see(pulse, 1, 5_500, 5_900)
    assert pulse.is_dead()


def test_a_lease_is_counted_from_when_the_beat_was_sent_and_never_goes_back() -> None:
    lease = Lease(LEASE_MS)
    assert not lease.holds(0)
    lease.renew(1_000)
    assert lease.holds(1_899)
    assert not lease.holds(1_900)
    lease.renew(500)
    assert lease.holds(1_899)


def test_a_lease_is_renewed_since_then_by_a_beat_that_was_sent_no_earlier() -> None:
    lease = Lease(LEASE_MS)
    assert not lease.is_renewed_since(0)
    lease.renew(100)
    assert (lease.is_renewed_since(100), lease.is_renewed_since(101)) == (True, False)
    lease.renew(101)
    assert lease.is_renewed_since(101)


def test_no_follower_takes_the_place_of_a_leader_whose_lease_holds() -> None:
    lease, pulse, sent_ms = Lease(LEASE_MS), Pulse(LEASE_MS), 100
    lease.renew(sent_ms)
    for now_ms in range(sent_ms, 3_000, 50):  # the first look may be as early as the beat is sent
        see(pulse, 1, now_ms)
        assert not (lease.holds(now_ms) and pulse.is_dead())
    assert pulse.is_dead()


REPLICAS, OUTCOME = st.integers(0, 2), st.sampled_from(OUTCOMES)


class ElectionMachine(RuleBasedStateMachine):
    """Whatever happens, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.fleet = ElectedFleet()

    def who(self, number: int) -> Replica:
        """One that isn't stopped: that one goes on by this."""
        found = self.fleet.replicas[number]
        found.paused = False
        return found

    @rule(number=REPLICAS, count=st.integers(1, 4))
    def write(self, number: int, count: int) -> None:
        self.fleet.write(self.who(number), count)

    @rule(number=REPLICAS)
    def flush(self, number: int) -> None:
        self.fleet.flush(self.who(number))

    @rule(number=REPLICAS, count=st.integers(1, 9))
    def fetch(self, number: int, count: int) -> None:
        self.fleet.fetch(self.who(number), count)

    @rule(number=REPLICAS, arrives=st.booleans())
    def ask(self, number: int, arrives: bool) -> None:
        self.fleet.ask(self.who(number), arrives)

    @rule(number=REPLICAS)
    def catch_up(self, number: int) -> None:
        self.fleet.catch_up(self.who(number))

    @rule(data=st.data())
    def hear_late(self, data: st.DataObject) -> None:
        if self.fleet.on_their_way:
            self.fleet.hear(data.draw(st.sampled_from(self.fleet.on_their_way)))

    @rule(number=REPLICAS, outcome=OUTCOME)
    def tick(self, number: int, outcome: str) -> None:
        self.fleet.tick(self.who(number), outcome)

    @rule(ms=st.sampled_from([1, 50, SILENT_MS // 2, SILENT_MS + 1]))
    def wait(self, ms: int) -> None:
        self.fleet.wait(ms)

    @rule(number=REPLICAS)
    def look(self, number: int) -> None:
        self.fleet.look(self.who(number))

    @rule(number=REPLICAS, outcome=OUTCOME)
    def stand(self, number: int, outcome: str) -> None:
        self.fleet.stand(self.who(number), outcome)

    @rule(number=REPLICAS, outcome=OUTCOME)
    def start(self, number: int, outcome: str) -> None:
        self.fleet.start(self.who(number), outcome)

    @rule(seed=st.integers(0, 3))
    def arrive_late(self, seed: int) -> None:
        self.fleet.arrive_late(Random(seed))

    @rule(number=REPLICAS, wiped=st.booleans())
    def crash(self, number: int, wiped: bool) -> None:
        self.fleet.crash(self.who(number), wiped)

    @rule(number=REPLICAS, to=REPLICAS, outcome=OUTCOME)
    def switch(self, number: int, to: int, outcome: str) -> None:
        self.fleet.switch(self.who(number), self.fleet.replicas[to], outcome)

    @rule(number=REPLICAS)
    def stand_still(self, number: int) -> None:
        self.fleet.replicas[number].paused = True

    @rule(number=REPLICAS, cut_off=st.booleans())
    def lose_the_store(self, number: int, cut_off: bool) -> None:
        self.fleet.replicas[number].cut_off = cut_off


ElectionMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
test_whatever_happens_every_later_leader_has_what_is_acknowledged_and_no_position_is_twice = ElectionMachine.TestCase


def walk(rules: type[Rules], seed: int) -> ElectedFleet:
    """Something happens many times."""
    chance, fleet = Random(seed), ElectedFleet(rules, 2 + seed % 2)
    for _ in range(300):
        fleet.step(chance)
    return fleet


def walk_all(rules: type[Rules], count: int) -> list[ElectedFleet]:
    """That, so often."""
    return [walk(rules, seed) for seed in range(count)]


def test_leaders_change_on_the_way_and_much_is_acknowledged() -> None:
    walks = walk_all(Rules, 150)
    assert sum(len(each.led) >= 4 for each in walks) > 10
    assert sum(len(each.acknowledged) for each in walks) > 500
    assert any(len(each.stored.members) == 3 for each in walks if each.stored)


class FollowsWhileItProposes(Rules):
    """No seal: what it says of its disk while it proposes itself still counts at the leader before."""

    seals = False


class AnybodyLeads(Rules):
    """Also who is no member."""

    def may_stand(self, own: Own, record: Record) -> bool:
        return own.log_id == record.log_id


class ServesAtOnce(Rules):
    """Before the first frame of its epoch is confirmed."""

    waits_for_first = False


class _ForgetsWhatIsProposed(InSync):
    def _counted(self) -> set[Member]:
        record = self.proposed or self.record
        return {each for each in [*record.members, *filter(None, [self.joining])] if each.replica != record.leader}


class ConfirmsBeforeTheRecord(Rules):
    """A member that is let go counts no more before the record without it is in force."""

    in_sync = _ForgetsWhatIsProposed


@pytest.mark.parametrize("rules", [FollowsWhileItProposes, AnybodyLeads, ServesAtOnce, ConfirmsBeforeTheRecord])
def test_without_any_one_rule_a_promise_is_broken(rules: type[Rules]) -> None:
    with pytest.raises(Broken):
        walk_all(rules, 2_000)


class FencesNobody(Rules):
    """Who goes by an older epoch is followed, and heard."""

    fences = False


def test_no_promise_rests_on_fencing_which_only_tells_a_leader_sooner_that_it_was_replaced() -> None:
    walk_all(FencesNobody, 150)
