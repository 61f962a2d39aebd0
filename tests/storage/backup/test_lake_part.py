"""What a backup copies of a lake belongs together, whatever goes on in the lake meanwhile."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from lakemq.storage.backup.copying import Copier
from lakemq.storage.backup.lake_part import copy_lake
from lakemq.storage.backup.log_part import ChangedMeanwhile
from lakemq.storage.disk.files import Files
from lakemq.storage.lake.delta_log import entries_of


class CleanedMeanwhile(Files):
    """As the first such file is copied, the table gets a commit and a checkpoint, and its log of before goes: that of a
    table which nobody has written for longer than its log is kept."""

    def __init__(self, table: Path, first: str) -> None:
        self._table, self._first = table, first
        self._is_done = False

    def open_read(self, path: Path) -> int:
        if path.suffix == self._first and not self._is_done:
            self._is_done = True
            append(self._table, 3)
            DeltaTable(str(self._table)).create_checkpoint()
            for version, entry in entries_of(self._table).items():
                if version < 3:
                    entry.unlink()
        return super().open_read(path)


def append(table: Path, number: int) -> None:
    write_deltalake(str(table), pa.table({"number": [number]}), mode="append")


@pytest.mark.parametrize("first", [".json", ".parquet"])
def test_a_log_that_is_cleaned_while_its_table_is_copied_is_whole_in_the_copy(tmp_path: Path, first: str) -> None:
    """The copy had none of the entries that it needs, and nobody noticed before the restore."""
    table = tmp_path / "lake" / "t"
    for number in range(3):
        append(table, number)
    copier = Copier(CleanedMeanwhile(table, first), tmp_path / "copy")
    if first == ".json":
        with pytest.raises(ChangedMeanwhile):
            copy_lake(tmp_path / "lake", copier)
        copier.forget("lake/")
    (copied,) = copy_lake(tmp_path / "lake", copier)
    found = DeltaTable(str(tmp_path / "copy" / "lake" / "t"))
    assert copied.version == found.version() == (3 if first == ".json" else 2)
    assert sorted(found.to_pyarrow_table()["number"].to_pylist()) == list(range(copied.version + 1))


def test_what_of_a_log_nobody_needs_may_go_while_it_is_copied(tmp_path: Path) -> None:
    """Old checksums and entries go each hour: a large lake would never be copied to the end."""
    table = tmp_path / "lake" / "t"
    for number in range(3):
        append(table, number)
    DeltaTable(str(table)).create_checkpoint()
    append(table, 3)
    gone = entries_of(table)[0]

    class WithoutOld(Files):
        def open_read(self, path: Path) -> int:
            gone.unlink(missing_ok=True)
            return super().open_read(path)

    (copied,) = copy_lake(tmp_path / "lake", Copier(WithoutOld(), tmp_path / "copy"))
    found = DeltaTable(str(tmp_path / "copy" / "lake" / "t"))
    assert copied.version == found.version() == 3
    assert sorted(found.to_pyarrow_table()["number"].to_pylist()) == [0, 1, 2, 3]
