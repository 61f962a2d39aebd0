"""How far retention has cut topics is known wherever the lake is."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakemq.jobs.maintenance.cuts import read_cuts, remember_cuts
from lakemq.jobs.maintenance.requests import FOLDER, write_atomically
from lakemq.storage.disk.files import Files
from lakemq.testing.object_store import ObjectStore
from tests.objects.stores import path_in


def test_a_topic_has_its_latest_cut(tmp_path: Path) -> None:
    assert read_cuts(tmp_path) == {}
    remember_cuts(tmp_path, {"a": 5, "b": 7})
    remember_cuts(tmp_path, {"a": 4, "b": 8, "c": 1})
    assert read_cuts(tmp_path) == {"a": 5, "b": 8, "c": 1}
    assert [each.name for each in (tmp_path / FOLDER).iterdir()] == ["cuts.json"]


def test_of_a_lake_in_a_bucket_another_machine_knows_them(object_store: ObjectStore, tmp_path: Path) -> None:
    here, there = (path_in(object_store, f"s3://cuts/{tmp_path.name}", tmp_path / name) for name in ("here", "there"))
    remember_cuts(here, {"a": 5})
    assert read_cuts(there) == {"a": 5}
    remember_cuts(there, {"b": 6})
    assert read_cuts(here) == {"a": 5, "b": 6}


def test_those_that_an_older_lakemq_kept_beside_a_bucket_go_into_it(object_store: ObjectStore, tmp_path: Path) -> None:
    lake, other = (path_in(object_store, f"s3://cuts/{tmp_path.name}", tmp_path / name) for name in ("here", "there"))
    older = lake.work_dir / FOLDER / "cuts.json"
    write_atomically(older, '{"a": 5, "b": 9}')
    assert read_cuts(lake) == {"a": 5, "b": 9}
    assert read_cuts(other) == {}
    remember_cuts(lake, {"a": 6})
    assert not older.exists()
    assert read_cuts(lake) == read_cuts(other) == {"a": 6, "b": 9}


def test_they_are_on_disk_before_a_row_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []
    sync_dir = Files.sync_dir
    monkeypatch.setattr(Files, "sync_dir", lambda self, path: (synced.append(path), sync_dir(self, path)))
    remember_cuts(tmp_path / "lake", {"a": 5})
    assert {tmp_path / "lake" / FOLDER, tmp_path / "lake", tmp_path} <= set(synced)
