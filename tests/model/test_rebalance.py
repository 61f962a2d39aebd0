"""Strategies of rebalancing."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.message_queue import MessageQueue
from lakemq.model.rebalance import (
    STRATEGIES,
    Strategy,
    averagely,
    averagely_by_circle,
    by_configuration,
    by_machine_room,
    consistent_hash,
)


def room(name: str) -> str:
    return name[:1]


QUEUES = st.sets(
    st.builds(MessageQueue, st.just("orders"), st.sampled_from(["a1", "a2", "b1", "c1"]), st.integers(0, 40)),
    max_size=60,
)
MEMBERS = st.sets(st.text("abcd-0123456789", min_size=1, max_size=6), min_size=1, max_size=30)
ALL = [*STRATEGIES.values(), by_machine_room(room, room), by_machine_room(room, room, consistent_hash)]
NAMES = [*STRATEGIES, "by_machine_room", "by_machine_room, consistent_hash"]


def numbered(count: int) -> list[MessageQueue]:
    return [MessageQueue("orders", "a", number) for number in range(count)]


@pytest.mark.parametrize("strategy", ALL, ids=NAMES)
@given(queues=QUEUES, members=MEMBERS, seed=st.integers(0, 99))
def test_every_queue_has_exactly_one_owner_whatever_the_order(
    strategy: Strategy, queues: set[MessageQueue], members: set[str], seed: int
) -> None:
    assignment = strategy(sorted(queues), sorted(members))
    assert sorted(queue for part in assignment.values() for queue in part) == sorted(queues)
    assert set(assignment) == members
    assert all(part == sorted(part) for part in assignment.values())
    shuffled_queues, shuffled_members = sorted(queues), sorted(members)
    random.Random(seed).shuffle(shuffled_queues)
    random.Random(seed).shuffle(shuffled_members)
    assert strategy(shuffled_queues, shuffled_members) == assignment


@pytest.mark.parametrize("strategy", ALL, ids=NAMES)
def test_without_members_nobody_gets_anything(strategy: Strategy) -> None:
    assert strategy(numbered(3), []) == {}


@pytest.mark.parametrize("strategy", [averagely, averagely_by_circle])
@given(queues=QUEUES, members=MEMBERS)
def test_averages_differ_by_one_at_most(strategy: Strategy, queues: set[MessageQueue], members: set[str]) -> None:
    sizes = [len(part) for part in strategy(sorted(queues), sorted(members)).values()]
    assert max(sizes) - min(sizes) <= 1


def test_averagely_gives_neighbours_and_by_circle_deals_out_in_turn() -> None:
    q = numbered(5)
    assert averagely(q, ["c2", "c1"]) == {"c1": q[:3], "c2": q[3:]}
    assert averagely_by_circle(q, ["c2", "c1"]) == {"c1": [q[0], q[2], q[4]], "c2": [q[1], q[3]]}


@given(queues=QUEUES, members=MEMBERS, joining=st.text("xyz", min_size=1, max_size=3))
def test_consistent_hash_moves_queues_only_to_who_joins(
    queues: set[MessageQueue], members: set[str], joining: str
) -> None:
    before = consistent_hash(queues, members)
    after = consistent_hash(queues, {*members, joining})
    for name in members:
        assert set(after[name]) <= set(before[name])


def test_by_configuration_gives_what_is_configured_and_exists() -> None:
    q = numbered(4)
    strategy = by_configuration({"c1": [q[0], q[3]], "c2": [q[1]], "gone": [q[2]]})
    assert strategy(q[:3], ["c2", "c1", "c3"]) == {"c1": [q[0]], "c2": [q[1]], "c3": []}


def test_by_configuration_refuses_a_queue_for_two() -> None:
    q = numbered(1)
    with pytest.raises(ValueError, match="both 'c1' and 'c2'"):
        by_configuration({"c1": q, "c2": q})


def test_by_machine_room_keeps_to_the_room_and_shares_what_no_room_has_members_for() -> None:
    near = [MessageQueue("t", "a1", number) for number in range(2)]
    far = [MessageQueue("t", "z1", number) for number in range(2)]
    assignment = by_machine_room(room, room)([*near, *far], ["a-1", "b-1"])
    assert assignment == {"a-1": [*near, far[0]], "b-1": [far[1]]}
