from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.series import SERIES_MAX, Split, order_of, split_by_label


def test_rows_of_days_and_countries_are_a_series_for_each_country() -> None:
    found = split_by_label([1, 1, 2, 3], ["BE", "DE", "BE", "DE"], [10, 20, 11, 22])
    assert found == Split([1, 2, 3], {"BE": [10, 11, None], "DE": [20, None, 22]})


def test_rows_that_are_something_else_stay_as_they_are() -> None:
    assert split_by_label([1, 2, 3], ["BE", "DE", "BE"], [1, 2, 3]) is None  # no x comes twice
    assert split_by_label([1, 1, 1], ["BE", "DE", "BE"], [1, 2, 3]) is None  # which one would it be?
    many = [str(number) for number in range(SERIES_MAX + 1)]
    assert split_by_label([1] * len(many), many, range(len(many))) is None
    assert split_by_label([], [], []) is None


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from("abc")), unique=True))
def test_no_number_is_lost(places: list[tuple[int, str]]) -> None:
    found = split_by_label([x for x, _ in places], [label for _, label in places], range(len(places)))
    if found is not None:
        at = {(x, label): found.series[label][nth] for nth, x in enumerate(found.x) for label in found.series}
        assert {place: number for place, number in at.items() if number is not None} == {
            place: number for number, place in enumerate(places)
        }


def test_rows_are_ordered_by_x_and_those_without_come_last() -> None:
    assert order_of([3, None, 1, 2, 1]) == [2, 4, 3, 0, 1]
