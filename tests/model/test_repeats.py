from __future__ import annotations

from collections.abc import Hashable

from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.repeats import Repeats, Seen


def test_so_many_are_let_through_the_last_is_told_and_the_others_are_counted() -> None:
    repeats = Repeats(2, 60.0, 10)
    assert [repeats.note("a", 0.0) for _ in range(4)] == [Seen.LET_THROUGH, Seen.LAST, Seen.COUNTED, Seen.COUNTED]
    assert repeats.note("b", 1.0) is Seen.LET_THROUGH
    assert list(repeats.over(59.9)) == []
    assert list(repeats.over(60.0)) == [("a", 2)]
    assert repeats.note("a", 60.0) is Seen.LET_THROUGH
    assert list(repeats.over(1_000.0)) == [], "what was all let through isn't said again"


def test_more_kinds_than_are_known_push_out_the_first() -> None:
    repeats = Repeats(1, 60.0, 2)
    for kind in ("a", "a", "b"):
        repeats.note(kind, 0.0)
    assert list(repeats.over(0.0)) == [("a", 1)]


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.floats(0, 30)), max_size=60), st.integers(1, 4))
def test_each_is_let_through_or_said_once(came: list[tuple[str, float]], kinds_max: int) -> None:
    repeats, now_s = Repeats(2, 60.0, kinds_max), 0.0
    through = counted = 0
    said: list[tuple[Hashable, int]] = []
    for kind, later_s in came:
        now_s += later_s
        said += repeats.over(now_s)
        if repeats.note(kind, now_s) is Seen.COUNTED:
            counted += 1
        else:
            through += 1
    said += repeats.over(float("inf"))
    assert (sum(times for _, times in said), through + counted) == (counted, len(came))
    assert all(times > 0 for _, times in said)
