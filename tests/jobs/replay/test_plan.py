"""The plans of replays: kept whole by any number of processes, and what killed ones leave goes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from lakemq.jobs.replay.plan import (
    FOLDER,
    Batch,
    Plan,
    ReplayRequest,
    finish_plan,
    keep_first,
    known_plans,
    read_plan,
    sweep_plans,
    write_plan,
)
from lakemq.storage.disk.files import Files
from lakemq.testing.object_store import ObjectStore
from tests.objects.stores import path_in

WANTED = ReplayRequest("true", "t", None)
SINK = f"replay-{WANTED.id}-00000000"
LONG_AGO_S, NOW_S = 1_000.0, 2_000.0


def test_of_two_that_end_together_one_plan_is_kept_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have opened their scratch before either writes, and have written before either renames it."""
    plans = [Plan(WANTED, SINK, [Batch("b", 0, 0, 9, 10)] * count, found=count) for count in (1, 500)]
    together, append, rename = Barrier(2), Files.append_all, Files.rename

    def append_together(self: Files, descriptor: int, data: bytes | memoryview) -> None:
        together.wait(60)
        append(self, descriptor, data)
        together.wait(60)

    def rename_together(self: Files, path: Path, other: Path) -> None:
        together.wait(60)
        rename(self, path, other)

    assert write_plan(tmp_path, plans[0], new=True)
    monkeypatch.setattr(Files, "append_all", append_together)
    monkeypatch.setattr(Files, "rename", rename_together)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(lambda plan: write_plan(tmp_path, plan), plans)) == [True, True]
    assert read_plan(tmp_path, WANTED) in plans
    assert [each.name for each in (tmp_path / FOLDER / WANTED.id).iterdir()] == ["plan.json"]


def test_plans_are_told_the_newest_first_without_their_conditions(tmp_path: Path) -> None:
    assert known_plans(tmp_path, 5) == []
    for number, group in enumerate((None, "g", "h")):
        wanted = ReplayRequest("key = 'user-17'", f"t{number}", group)
        plan = Plan(wanted, f"sink-{number}", found=10)
        assert write_plan(tmp_path, plan, new=True)
        if number == 1:
            finish_plan(tmp_path, plan, 9)
        age([tmp_path / FOLDER / wanted.id / "plan.json"], LONG_AGO_S + number)
    (torn := tmp_path / FOLDER / "torn" / "plan.json").parent.mkdir()
    torn.write_text("{")
    found = known_plans(tmp_path, 3)
    assert [each["sink"] for each in found] == ["sink-2", "sink-1"]
    assert found[1] == {
        "sink": "sink-1",
        "topic": "t1",
        "group": "g",
        "found": 10,
        "sent": 9,
        "finished": True,
        "written_ms": int(LONG_AGO_S + 1) * 1000,
    }
    assert "user-17" not in str(found)


def test_what_killed_processes_left_goes_and_what_is_needed_stays(tmp_path: Path) -> None:
    assert write_plan(tmp_path, Plan(WANTED, SINK), new=True)
    folder = tmp_path / FOLDER / WANTED.id
    kept = [folder / "plan.json", folder / SINK / "part-0", folder / "new" / "part-0", folder / ".plan.json.new.tmp"]
    left = [folder / "old" / "part-0", folder / ".plan.json.old.tmp"]
    lone = tmp_path / FOLDER / "damaged" / "plan.json"
    for path in [*kept[1:], *left, lone]:
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text("?")
    old = [*kept[:2], *left, *(each.parent for each in (kept[1], left[0])), lone]
    age(old, LONG_AGO_S)
    sweep_plans(tmp_path, NOW_S)
    assert {each for each in (tmp_path / FOLDER).rglob("*") if each.is_file()} == {*kept, lone}
    sweep_plans(tmp_path / "none", NOW_S)


def test_what_is_left_in_a_bucket_goes_too(object_store: ObjectStore, tmp_path: Path) -> None:
    lake = path_in(object_store, f"s3://plans/{tmp_path.name}", tmp_path)
    assert write_plan(lake, Plan(WANTED, SINK), new=True)
    folder = lake / FOLDER / WANTED.id
    for name in (SINK, "left"):
        (folder / name / "part-0").write_bytes(b"?")
    before_all = (folder / "plan.json").stat().st_mtime - 1
    sweep_plans(lake, before_all)
    assert len(list(folder.rglob("*"))) == 3
    sweep_plans(lake, before_all + 1e6)
    assert {str(each) for each in folder.rglob("*")} == {f"{folder}/plan.json", f"{folder}/{SINK}/part-0"}


def test_a_plan_whose_answer_was_lost_keeps_its_positions_and_one_that_came_second_does_not(
    object_store: ObjectStore, tmp_path: Path
) -> None:
    lake = path_in(object_store, f"s3://plans/{tmp_path.name}", tmp_path)
    first, second = (Plan(WANTED, sink, [Batch("b", 0, 0, 9, 10)], found=10) for sink in (SINK, "second"))
    folder = lake / FOLDER / WANTED.id
    for plan in (first, second):
        (folder / plan.sink / "part-0").write_bytes(b"?")
    object_store.answers_to_lose = 1
    assert keep_first(lake, first) == first
    assert object_store.answers_to_lose == 0
    assert (folder / SINK / "part-0").is_file()
    assert keep_first(lake, second) == first
    assert {str(each) for each in folder.rglob("*")} == {f"{folder}/plan.json", f"{folder}/{SINK}/part-0"}


def age(paths: Iterable[Path], time_s: float) -> None:
    for path in paths:
        os.utime(path, (time_s, time_s))
