"""Positions by the time that they are due."""

from __future__ import annotations

from operator import itemgetter

from hypothesis import given
from hypothesis import strategies as st

from lakemq.storage.state.dues import SLACK, Dues

NUMBERS = st.integers(0, 20)


@given(st.lists(st.tuples(st.sampled_from(["add", "remove", "take"]), NUMBERS, NUMBERS), max_size=200))
def test_what_is_due_is_taken_earliest_first_and_once(steps: list[tuple[str, int, int]]) -> None:
    dues, model = Dues(), dict[tuple[int, int], None]()  # in the order in which they came
    for step, due, position in steps:
        if step == "add":
            dues.add(due, [position])
            model.setdefault((due, position))
        elif step == "remove":
            dues.remove(due, position)
            model.pop((due, position), None)
        else:
            expected = sorted((each for each in model if each[0] <= due), key=itemgetter(0))[:position]
            assert dues.take(due, position) == [taken for _, taken in expected]
            for each in expected:
                del model[each]
        assert len(dues) == len(model)
        assert dues.earliest() == min((at for at, _ in model), default=None)


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.booleans()), max_size=100), NUMBERS)
def test_what_is_due_is_counted_and_of_many_times_some(steps: list[tuple[int, int, bool]], at_ms: int) -> None:
    dues, model = Dues(), set[tuple[int, int]]()
    for due, position, is_added in steps:
        if is_added:
            dues.add(due, [position])
            model.add((due, position))
        else:
            dues.remove(due, position)
            model.discard((due, position))
    expected = sum(due <= at_ms for due, _ in model)
    assert dues.count(at_ms, 1_000) == expected
    assert dues.count(at_ms, 0) == 0
    assert dues.count(at_ms, 3) <= expected


def test_times_are_counted_to_their_limit_and_those_that_are_over_are_none() -> None:
    dues = Dues()
    for due in range(1_000):
        dues.add(due, [due, due + 1])
    assert [dues.count(-1, 1), dues.count(0, 1), dues.count(499, 500)] == [0, 2, 1_000]
    assert dues.count(999, 300) == 600
    for due in range(1, 1_000):  # the first one stays, and with it what stands below it in the heap
        if due % 10:
            dues.remove(due, due)
            dues.remove(due, due + 1)
    assert dues.count(999, 100) == 200


def test_its_size_is_bounded_by_what_is_in_it() -> None:
    dues = Dues()
    dues.add(0, [1])
    for due in range(1, 10 * SLACK):
        dues.add(due, [due])
        dues.remove(due, due)
    assert len(dues._heap) <= 2 * SLACK  # pyright: ignore[reportPrivateUsage]
