from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.named import OTHER, NamedCounts, choose

NAMES = st.sampled_from([*"abcdef", OTHER])
STEP = st.dictionaries(NAMES, st.tuples(st.integers(0, 5), st.integers(0, 5)))


def test_who_is_told_stays_so() -> None:
    assert choose(["b"], {"a": 9, "b": 0, "c": 5}, 2) == ["b", "a"]


def test_who_is_gone_gives_way() -> None:
    assert choose(["b", "gone"], {"a": 9, "b": 0, "c": 9}, 2) == ["b", "a"]


def test_nobody_is_told_where_none_may_be() -> None:
    assert choose(["b"], {"a": 9, "b": 0}, 0) == []


def test_what_is_called_as_the_others_is_one_of_them() -> None:
    assert choose([], {OTHER: 9, "a": 1}, 5) == ["a"]


def test_the_others_are_told_together_and_counted() -> None:
    counts = NamedCounts(1, 1)
    told = counts.tell({"a": [1.0], "b": [5.0], "c": [2.0]}, {"a": 1, "b": 5, "c": 2})
    assert (told.by_name, told.other, told.others) == ({"b": [5.0]}, [3.0], 2)


def test_a_name_that_is_told_later_begins_where_the_others_told_of_it_ended() -> None:
    counts = NamedCounts(1, 1)
    counts.tell({"a": [1.0], "b": [5.0]}, {"a": 1, "b": 5})
    told = counts.tell({"a": [4.0]}, {"a": 4})
    assert (told.by_name, told.other) == ({"a": [3.0]}, [1.0])


def test_a_name_that_began_anew_counts_on() -> None:
    counts = NamedCounts(1, 1)
    counts.tell({"a": [5.0]}, {"a": 1})
    assert counts.tell({"a": [2.0]}, {"a": 1}).by_name == {"a": [7.0]}


@given(st.lists(STEP, max_size=12), st.integers(0, 3))
def test_nothing_that_is_told_falls_and_nothing_is_told_twice(
    steps: list[dict[str, tuple[int, int]]], most: int
) -> None:
    """Whatever comes, goes, and begins anew: of a name that goes on being told, and of the others, no number falls; and
    all of them grow by what was counted."""
    counts = NamedCounts(2, most)
    last: dict[str, list[float]] = {}
    before, others, total = {}, [0.0, 0.0], 0.0
    for step in steps:
        now = {name: list(map(float, numbers)) for name, numbers in step.items()}
        for name, numbers in now.items():
            old = last.get(name, [0.0, 0.0])
            fell = any(new < each for new, each in zip(numbers, old, strict=True))
            total += sum(numbers) - (0 if fell else sum(old))
        last = now
        told = counts.tell(now, {name: sum(numbers) for name, numbers in now.items()})
        assert len(told.by_name) <= most
        assert told.others == len(now) - len(told.by_name)
        assert all(new >= old for new, old in zip(told.other, others, strict=True))
        for name, numbers in told.by_name.items():
            assert all(new >= old for new, old in zip(numbers, before.get(name, [0.0, 0.0]), strict=True))
        total -= sum(sum(before[name]) for name in before.keys() - told.by_name.keys())
        assert sum(map(sum, told.by_name.values())) + sum(told.other) == total
        before, others = told.by_name, told.other
