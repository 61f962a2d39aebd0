from __future__ import annotations

import json

from pyroaring import BitMap64

from lakemq.storage.state.by_group import ByGroup
from lakemq.storage.state.routing_state import UNKNOWN, RoutingState
from lakemq.storage.state.steps import finish


def test_what_is_pending_is_counted_by_group() -> None:
    mine = ByGroup()
    mine.add("a", 0, 5)
    mine.add("b", 5, 7)
    mine.add("a", 8, 9)
    pending = BitMap64([0, 1, 5, 8, 9])
    assert [mine.count(group, pending) for group in ("a", "b", "c")] == [3, 1, 0]
    mine.forget("a")
    assert mine.count("a", pending) == 0


def test_what_is_done_is_forgotten_and_so_is_who_has_nothing_else() -> None:
    mine = ByGroup()
    mine.add("a", 0, 5)
    mine.add("b", 5, 7)
    pending = BitMap64([1, 2])
    dumped = mine.dump(pending)
    mine.tidy(pending)
    assert mine.dump(pending) == dumped  # what was done is in neither
    assert mine.groups() == list(dumped) == ["a"]
    assert mine.count("a", BitMap64(range(10))) == 2


def test_a_copy_and_what_was_dumped_are_the_same() -> None:
    mine = ByGroup()
    mine.add("a", 0, 5)
    copied, again = finish(mine.copy_in_steps()), ByGroup()
    everything = BitMap64(range(10))
    again.restore(json.loads(json.dumps(mine.dump(everything))))
    mine.add("a", 5, 9)
    assert [each.count("a", everything) for each in (mine, copied, again)] == [9, 5, 5]


def test_dead_letters_of_a_log_that_did_not_keep_whose_they_are_are_nobodys() -> None:
    state, again = RoutingState(), RoutingState()
    state.dead.add_range(3, 6)
    dumped = state.dump()
    del dumped["dead_of"], dumped["retries_of"]
    again.restore(json.loads(json.dumps(dumped)))
    assert again.dead_of.count(UNKNOWN, again.dead) == 3
    again.dead.discard(4)
    assert again.dead_of.count(UNKNOWN, again.dead) == 2
    copied = finish(again.copy_in_steps())
    assert copied.dead_of.count(UNKNOWN, copied.dead) == 2
