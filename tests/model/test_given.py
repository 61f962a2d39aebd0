"""A new leader gives no position that anybody was told of, whether leaders tell of what is confirmed only or not."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakemq.model.election import Seal, forced
from lakemq.model.given import is_own_end_enough
from lakemq.model.in_sync import Record
from tests.model.election_fleet import ElectedFleet, Entry, Leading, Replica
from tests.model.in_sync_fleet import Broken

BLOCK = 300
"""So many positions are passed over by who doesn't know: more than anybody gives in a run."""
STEPS = 250
Enough = Callable[[int, int | None, bool], bool]


class ToldFleet(ElectedFleet):
    """Replicas of which each leader waits for its followers, or doesn't, for as long as it leads; operators have any of
    them lead at any time. What is lost is no matter here: what is told is."""

    def __init__(self, seed: int, enough: Enough = is_own_end_enough, forgets: bool = True) -> None:
        self.seed = seed
        self.enough = enough
        self.forgets = forgets
        self.told: dict[int, Entry] = {}
        self.kept: dict[int, int] = {}
        """By replica: the epoch in which it was told that its leader waits."""
        self.holes: dict[int, int] = {}
        """Where the hole that begins an epoch ends: who has a part of it has all."""
        super().__init__()

    def waits(self, epoch: int) -> bool:
        return Random(f"{self.seed} {epoch}").random() < 0.7

    def begin_to_lead(self, who: Replica, record: Record, hole: bool = True) -> None:
        epoch = who.log[-1].epoch if who.log else 0
        if hole and not self.enough(epoch, self.kept.get(who.number), True):
            end = len(who.log)
            who.log += [self.next_entry(record.epoch, position) for position in range(end, end + BLOCK)]
        self.holes[record.epoch] = len(who.log) + hole
        super().begin_to_lead(who, record, hole)

    def serve(self, who: Replica, leading: Leading) -> None:
        leading.serves = True

    def acknowledge(self, who: Replica, end: int) -> None:
        for position in range(end):
            self.tell(position, who.log[position])

    def tell(self, position: int, entry: Entry) -> None:
        is_message = position >= self.holes.get(entry.epoch, 0)
        if is_message and self.told.setdefault(position, entry) != entry:
            raise Broken(f"of {position} it is told that {entry} is there, and before that {self.told[position]} was")

    def write(self, who: Replica, count: int) -> None:
        begin = len(who.log)
        super().write(who, count)
        for position in range(begin, len(who.log)):
            if position in self.told and self.told[position].epoch < who.log[position].epoch:
                raise Broken(f"{position}, of which somebody was told, is given once more")
            if not self.waits(who.log[position].epoch):
                self.tell(position, who.log[position])

    def fetch(self, who: Replica, count: int) -> None:
        leader = self.followed(who)
        super().fetch(who, count)
        if leader is None or leader.leading is None or not who.log:
            return
        epoch = who.log[-1].epoch
        who.log += leader.log[len(who.log) : self.holes.get(epoch, 0)]
        if epoch == leader.leading.record.epoch and self.waits(epoch):
            self.kept[who.number] = epoch

    def crash(self, who: Replica, wiped: bool) -> None:
        super().crash(who, wiped)
        if wiped:
            self.kept.pop(who.number, None)

    def force(self, who: Replica, outcome: str) -> None:
        """An operator has it lead with what it has: one that knows of the newest epoch, as any other passes over what
        those who began that one passed over, and no more."""
        record = self.stored
        if who.leading is not None or who.proposed is not None or who.cut_off or record is None or not who.log:
            return
        if max(self.holes) != max(entry.epoch for entry in who.log):
            return
        if self.forgets:
            self.kept.pop(who.number, None)
        who.record, who.proposed, who.proposed_end = record, forced(record, who.member, who.highest), len(who.log)
        who.seal = Seal(who.proposed.epoch, who.proposed.version)
        if self.put(who, who.proposed, outcome):
            self.win(who, who.proposed)

    def step(self, chance: Random) -> None:
        if chance.random() < 0.02:
            self.force(chance.choice(self.replicas), chance.choice(["done", "not done"]))
        else:
            super().step(chance)


def live(fleet: ToldFleet) -> None:
    chance = Random(fleet.seed)
    for _ in range(STEPS):
        fleet.step(chance)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_no_position_of_which_somebody_was_told_is_given_again_whoever_leads(seed: int) -> None:
    live(ToldFleet(seed))


@pytest.mark.parametrize(
    ("enough", "forgets"),
    [
        (lambda epoch, confirming, is_elected: True, True),
        (is_own_end_enough, False),
    ],
    ids=["whoever leads goes on where its log ends", "also by order"],
)
def test_each_rule_is_needed(enough: Enough, forgets: bool) -> None:
    def breaks(seed: int) -> bool:
        try:
            live(ToldFleet(seed, enough, forgets))
        except Broken:
            return True
        return False

    assert any(breaks(seed) for seed in range(400))


def test_who_was_told_so_by_the_leader_of_its_last_epoch_goes_on_where_its_log_ends() -> None:
    assert is_own_end_enough(3, 3, is_elected=True)
    assert not is_own_end_enough(3, 3, is_elected=False)
    assert not is_own_end_enough(3, 2, is_elected=True)
    assert not is_own_end_enough(3, None, is_elected=True)


def test_what_it_was_told_of_an_older_epoch_is_not_enough() -> None:
    def second_switch(fleet: ToldFleet) -> None:
        fleet.waits = lambda epoch: epoch == 1
        _, second, third = fleet.replicas
        for _ in range(3):
            for each in (second, third):
                fleet.look(each)
                fleet.catch_up(each)
        fleet.look(second)
        fleet.stand(second, "done")
        fleet.look(third)
        for _ in range(3):
            fleet.catch_up(third)
        assert (fleet.kept[third.number], third.log[-1].epoch) == (1, 2)
        fleet.write(second, 2)
        fleet.look(third)
        fleet.stand(third, "done")
        fleet.write(third, 1)

    second_switch(ToldFleet(0))
    with pytest.raises(Broken, match="is given once more"):
        second_switch(ToldFleet(0, lambda epoch, confirming, is_elected: confirming is not None))


def test_whoever_takes_its_place_under_synchronous_replication_passes_over_one_position() -> None:
    fleet = ToldFleet(0)
    fleet.waits = lambda epoch: True
    first, second, _ = fleet.replicas
    fleet.look(second)
    for _ in range(3):
        fleet.write(first, 2)
        fleet.flush(first)
        fleet.catch_up(second)
    fleet.look(second)
    end = len(second.log)
    fleet.stand(second, "done")
    assert second.leading is not None
    assert len(second.log) == end + 1
