"""What a table's log says of its files, followed while the table may become another."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from lakemq.storage.lake.live_files import LiveFiles


def append(table: Path, times: int) -> None:
    for at in range(times):
        write_deltalake(str(table), pa.table({"x": [at]}), mode="append")


def test_a_table_that_is_gone_or_was_made_anew_is_another_and_one_that_goes_on_is_not(tmp_path: Path) -> None:
    table = tmp_path / "t"
    append(table, 2)
    live = LiveFiles(table)
    append(table, 1)
    assert not live.is_another()
    assert live.catch_up()
    assert (live.version, live.table_id) == (2, str(DeltaTable(str(table)).metadata().id))
    shutil.rmtree(table)
    assert live.is_another()
    append(table, 2)
    assert live.is_another(), "it is younger"
    append(table, 3)
    assert live.is_another(), "it has such a version too"
    assert LiveFiles(table).table_id != live.table_id


def test_who_begins_with_a_checkpoint_knows_the_table_too(tmp_path: Path) -> None:
    append(tmp_path / "t", 2)
    DeltaTable(str(tmp_path / "t")).create_checkpoint()
    live = LiveFiles(tmp_path / "t")
    assert (live.version, live.is_another()) == (1, False)
    assert live.table_id == str(DeltaTable(str(tmp_path / "t")).metadata().id)
