"""Which of many tables has its files merged next."""

from __future__ import annotations

from lakemq.model.merge_turns import NAMES_MAX, MergeTurns


def _take_all(turns: MergeTurns, now_s: float) -> list[str]:
    return list(iter(lambda: turns.take(now_s), None))


def test_only_a_table_with_enough_new_files_is_looked_at() -> None:
    turns = MergeTurns(3, 2.0)
    assert turns.take(0.0) is None
    assert turns.wait_s(0.0) is None
    names = [f"t{at}" for at in range(100)]
    assert all(turns.written(name) for name in names), "an earlier run may have left files"
    assert _take_all(turns, 0.0) == names
    for _ in range(2):
        assert not any(turns.written(name) for name in names)
    assert turns.written("t7")
    assert _take_all(turns, 0.0) == ["t7"]
    assert not turns.written("t7")


def test_merges_take_turns_and_at_most_half_of_the_time() -> None:
    turns = MergeTurns(3, 2.0)
    for name in ("a", "b"):
        turns.written(name)
    assert turns.take(10.0) == "a"
    turns.merged("a", 10.0, 10.5)
    assert turns.wait_s(11.0) == 1.5
    assert turns.take(12.0) is None
    assert turns.take(12.5) == "b"
    turns.merged("b", 12.5, 20.0)
    assert turns.take(27.0) is None
    assert turns.take(27.5) == "a", "there may be more"
    turns.rest(27.5, 28.0)
    assert _take_all(turns, 30.0) == ["b"]


def test_what_is_remembered_is_bounded() -> None:
    turns = MergeTurns(3, 0.0)
    for at in range(NAMES_MAX + 1):
        turns.written(f"t{at}")
    _take_all(turns, 0.0)
    assert not turns.written("t1")
    assert turns.written("t0"), "it was forgotten, and counts as new"
