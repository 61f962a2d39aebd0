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


def test_its_size_is_bounded_by_what_is_in_it() -> None:
    dues = Dues()
    dues.add(0, [1])
    for due in range(1, 10 * SLACK):
        dues.add(due, [due])
        dues.remove(due, due)
    assert len(dues._heap) <= 2 * SLACK  # pyright: ignore[reportPrivateUsage]
