"""The job `checkpoint-cleanup` on a table's own log."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakemq.jobs.maintenance.cleanup import clean_up
from lakemq.jobs.maintenance.work import Work
from lakemq.jobs.tables.delta_writer import DeltaWriter
from lakemq.jobs.tables.tables import MESSAGE_INDEX
from lakemq.settings import Lake, Settings
from lakemq.storage.lake.delta_log import FOLDER, entries_of
from lakemq.storage.lake.progress import read_progress
from lakemq.storage.lake.prove import prove
from tests.jobs.lake.test_lake_query import one_row
from tests.jobs.lake_checks import rows_of


def test_a_tables_log_keeps_an_hour_and_what_that_needs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A day's commits were 70,000 files, which each commit and each statement listed: a second of CPU."""
    monkeypatch.setattr(Work, "check_clock", lambda _: None)  # no broker is asked here
    MESSAGE_INDEX.create(spark, tmp_path)
    path = MESSAGE_INDEX.path(tmp_path)
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.checkpointInterval' = '5')")
    writer = DeltaWriter(spark, path)
    writer.held(["broker-a"])
    for end in range(1, 13):
        writer.append(one_row(path), {"broker-a": end}, end)
    last = read_progress(path).version
    for file in (path / FOLDER).iterdir():
        version = int(file.name.lstrip(".").partition(".")[0]) if file.name.lstrip(".")[0].isdigit() else last
        if version < 9:
            age_s = file.stat().st_mtime - 4 * 3600
            os.utime(file, (age_s, age_s))
    prove(tmp_path)
    settings = Settings(lake=Lake(dir=tmp_path, versions_retention_ms=5 * 3_600_000))
    assert clean_up(Work(spark, settings, "")).detail["log_files"] == 0
    settings = Settings(lake=Lake(dir=tmp_path))
    assert clean_up(Work(spark, settings, "")).detail["log_files"] > 0
    kept = entries_of(path)
    assert 0 not in kept
    assert set(range(9, last + 1)) <= set(kept)
    assert DeltaTable(str(path), version=9).version() == 9
    assert read_progress(path).held == {"broker-a": 12}
    writer.append(one_row(path), {"broker-a": 13}, 13)
    assert len(rows_of(tmp_path, "message_index", ["position"])) == 13
    assert prove(tmp_path)[MESSAGE_INDEX.name].version == last + 1
