"""Dead letters counted by what they died of."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.causes import Cause, Causes
from lakemq.model.failure import cause_of

names = st.sampled_from([None, "", "a", "b", "a\nb", "a b"])


def counted(*letters: tuple[str | None, str | None, int]) -> Causes:
    causes = Causes()
    for letter in letters:
        causes.count(*letter)
    return causes


def test_those_with_most_letters_come_first_with_their_times() -> None:
    causes = counted(("E", "x", 3), (None, None, 4), ("E", "y", 1), (None, "odd\ntext", 5), ("E", None, 9))
    assert causes.most() == [
        Cause("E", True, 3, 1, 9),
        Cause("", False, 1, 4, 4),
        Cause("odd text", False, 1, 5, 5),
    ]
    assert len(causes) == 3


def test_a_name_is_a_class_only_where_it_is_that_of_all() -> None:
    assert [each.is_class for each in counted(("E", "x", 1), (None, "E", 1)).most()] == [False]
    assert [each.is_class for each in counted((None, "E", 1), ("E", "x", 1)).most()] == [False]
    assert [each.is_class for each in counted(("a\nb", "x", 1)).most()] == [False]


@given(st.lists(st.tuples(names, names, st.integers(0, 9))))
def test_each_letter_counts_once_at_the_cause_by_which_it_is_listed(
    letters: list[tuple[str | None, str | None, int]],
) -> None:
    causes = counted(*letters)
    found = causes.most()
    assert len(found) == len(causes)
    assert [-each.letters for each in found] == sorted(-each.letters for each in found)
    for cause in found:
        times = [at_ms for name, text, at_ms in letters if cause_of(name, text) == cause.name]
        assert (cause.letters, cause.oldest_ms, cause.newest_ms) == (len(times), min(times), max(times))
    assert sum(each.letters for each in found) == len(letters)
