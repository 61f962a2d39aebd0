from __future__ import annotations

from lakemq.model.lake_repair import WHOEVER, Found, Source, Undo, lost_by_undoing, source_of, what_to_undo

SOUND = [Found(4), Found(5), Found(6)]


def test_sound_entries_stay() -> None:
    assert what_to_undo(4, SOUND) is None
    assert what_to_undo(4, []) is None


def test_from_the_first_fault_on_all_goes() -> None:
    assert what_to_undo(4, [Found(4), Found(5, "torn"), Found(6)]) == Undo(5, "torn")


def test_what_follows_a_gap_goes() -> None:
    assert what_to_undo(4, [Found(4), Found(6)]) == Undo(5, "version 5 is missing")
    assert what_to_undo(3, SOUND) == Undo(3, "version 3 is missing")


def test_what_a_failed_sync_concerned_goes_however_it_looks() -> None:
    assert what_to_undo(4, SOUND, distrusted=5) == Undo(5, "it could not be brought to disk")
    assert what_to_undo(4, SOUND, distrusted=7) is None


def test_what_the_log_still_holds_is_not_lost() -> None:
    assert lost_by_undoing({"a": 10}, ["a"], {"a": 10}) == []
    assert lost_by_undoing({}, ["a"], {"a": 0}) == []
    assert lost_by_undoing({"a": -1}, ["a"], {"a": 0}) == []  # another log took the place of what it held


def test_what_neither_holds_or_nobody_can_be_asked_about_is_lost() -> None:
    assert lost_by_undoing({"a": 9}, ["a"], {"a": 10}) == ["a"]
    assert lost_by_undoing({"a": 9}, [], {"a": 10}) == ["a"]  # the entry is torn: nobody knows how far it went
    assert lost_by_undoing({"a": 9}, ["b"], {}) == ["b"]
    assert lost_by_undoing({"a": 9}, [None], {}) == [WHOEVER]  # torn, and no log can be asked
    assert lost_by_undoing({"a": 9}, [None], {"a": 9}) == []
    assert lost_by_undoing({}, ["a"], {"a": 1}) == ["a"]
    assert lost_by_undoing({"a": 0}, ["a"], {"a": 1}) == ["a"]


def test_only_a_table_that_comes_from_the_logs_needs_them() -> None:
    assert {source_of(name) for name in ("messages", "scheduled")} == {Source.LOGS}
    # No log holds the holes: a torn first entry would keep the jobs from starting for ever.
    assert {source_of(name) for name in ("maintenance_runs", "lake_stats", "log_holes")} == {Source.JOBS}
    assert source_of("topic_orders") is Source.LAKE
