"""What is on its way to a bucket: nobody else reads it, and none of it stays."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakemq.jobs.lake.lock import LakeLock
from lakemq.storage.lake.merge_files import Input, merge_files
from lakemq.storage.lake.table_file import UPLOADS, TableFile
from lakemq.testing.object_store import ObjectStore
from tests.objects.stores import path_in

SCHEMA = pa.schema([("position", pa.int64())])
ROWS = pa.record_batch([pa.array(range(10))], SCHEMA)


def test_a_merge_whose_upload_fails_leaves_nothing_and_says_why(tmp_path: Path) -> None:
    gone = ObjectStore()
    gone.close()
    lake = path_in(gone, "s3://bucket/lake", tmp_path / "work")
    pq.write_table(pa.Table.from_batches([ROWS]), tmp_path / "in.parquet")
    inputs = [Input(tmp_path / "in.parquet", ordered=True)]
    with pytest.raises(OSError, match=r"s3://bucket/lake/out\.parquet") as failed:
        merge_files(
            inputs, lake / "out.parquet", ["position"], ["position"], scratch=tmp_path / "scratch", stop=lambda: False
        )
    assert "PUT" in str(failed.value)
    assert list((lake.work_dir / UPLOADS).iterdir()) == []


def test_on_a_machine_without_the_folder_others_can_not_read_what_is_sent(
    object_store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    path = path_in(object_store, f"s3://uploads/{tmp_path.name}", tmp_path / "file") / "a.parquet"
    before = os.umask(0o022)
    try:
        file = TableFile(path, SCHEMA)
    finally:
        os.umask(before)
    (found,) = temporary.iterdir()
    assert stat.S_IMODE(found.stat().st_mode) == 0o700
    file.add(ROWS)
    assert file.finish() == 10
    assert list(temporary.iterdir()) == []


def test_who_takes_the_lock_removes_what_killed_processes_left(object_store: ObjectStore, tmp_path: Path) -> None:
    lake = path_in(object_store, f"s3://uploads/{tmp_path.name}", tmp_path / "work")
    left = lake.work_dir / UPLOADS / "left.parquet"
    left.parent.mkdir(parents=True)
    left.touch()
    taken = [None, object()]
    channel = SimpleNamespace(tryLock=lambda: taken.pop(0))
    file = SimpleNamespace(getChannel=lambda: channel, close=lambda: None)
    java: Any = SimpleNamespace(io=SimpleNamespace(RandomAccessFile=lambda path, mode: Path(path).touch() or file))
    lock = LakeLock(cast("Any", SimpleNamespace(_jvm=SimpleNamespace(java=java))), lake)
    assert not lock.acquire()
    assert left.exists()
    assert lock.acquire()
    assert not left.exists()
