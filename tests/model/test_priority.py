"""Topics of priorities."""

from __future__ import annotations

from collections import Counter

import pytest

from lakemq.model.errors import WrongMessageType
from lakemq.model.priority import LOWEST, SHARE, order, pick, queue_of


def test_a_priority_is_a_queue_and_a_queue_is_a_priority() -> None:
    assert queue_of(2, None, 3, "t") == queue_of(2, 2, 3, "t") == queue_of(None, 2, 3, "t") == 2
    assert queue_of(None, None, 3, "t") == LOWEST


@pytest.mark.parametrize(("priority", "queue_id"), [(3, None), (1, 2), (0, 1)])
def test_a_priority_that_there_is_not_and_one_of_another_queue_are_refused(priority: int, queue_id: int | None) -> None:
    with pytest.raises(WrongMessageType):
        queue_of(priority, queue_id, 3, "t")


@pytest.mark.parametrize("queues", range(1, 6))
def test_the_highest_comes_first_and_each_other_one_in_its_turn(queues: int) -> None:
    turns = [order(queues, turn) for turn in range(SHARE * queues * 2)]
    assert all(sorted(each) == list(range(queues)) for each in turns)
    firsts = Counter(each[0] for each in turns)
    assert firsts[queues - 1] >= len(turns) * (SHARE - 1) // SHARE
    assert set(firsts) == set(range(queues))
    for first, *others in turns:
        assert others == sorted(others, reverse=True), f"after {first} by priority"


def test_of_those_that_wait_the_highest_is_next_but_for_one_turn_in_so_many() -> None:
    picks = [pick([0, 2, 1, 2], turn) for turn in range(2 * SHARE)]
    assert picks == [*[1] * (SHARE - 1), 0] * 2
    assert pick([0], 3) == 0
    assert pick([0, 0, 0], 3) == 0, "without priorities each in turn"
