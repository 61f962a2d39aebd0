"""Our reading of progress against Delta's own, on a table that Delta writes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession

from lakemq.jobs.errors import LakeOutOfStep
from lakemq.jobs.tables.delta_writer import DeltaWriter
from lakemq.jobs.tables.driver import Driver
from lakemq.settings import Lake
from lakemq.storage.lake.log_marks import append_identifiers
from lakemq.storage.lake.progress import APPLICATION, read_progress
from tests.jobs.lake_checks import write_file


def one_row(table: Path) -> list[str]:
    """A file of the table with one row."""
    return write_file(table, pa.table({"n": [0]}))


def test_where_there_is_no_table_nothing_is_held(tmp_path: Path) -> None:
    progress = read_progress(tmp_path / "nothing")
    assert (progress.version, progress.held) == (-1, {})


def test_progress_is_what_delta_says_before_and_after_checkpoints(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "t"
    properties = "TBLPROPERTIES ('delta.checkpointInterval' = '3')"
    spark.sql(f"CREATE TABLE delta.`{table}` (n bigint) USING delta {properties}")
    writer = DeltaWriter(spark, table, Driver(spark, Lake(dir=tmp_path)))
    writer.held([])
    for epoch in range(1, 8):
        writer.append(
            one_row(table),
            {"broker-a": epoch * 10} | ({"b": epoch} if epoch % 2 else {}),
            epoch,
        )
        progress = read_progress(table)
        assert progress.version == epoch
        delta = DeltaTable(str(table))
        for broker in ("broker-a", "b"):
            assert progress.held[broker] == delta.transaction_version(APPLICATION + broker)
    assert list((table / "_delta_log").glob("*.checkpoint.parquet"))
    assert read_progress(table, 4).held == {"broker-a": 40, "b": 3}


def test_a_commit_that_no_listing_has_shown_is_noticed_by_who_commits(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{table}` (n bigint) USING delta")
    writer = DeltaWriter(spark, table, Driver(spark, Lake(dir=tmp_path)))
    writer.held([])
    writer.append(one_row(table), {"b": 10}, 0)
    write_deltalake(str(table), pa.table({"n": pa.array([7, 8], pa.int64())}), mode="append")
    writer.append(one_row(table), {"b": 20}, 1)
    assert sorted(DeltaTable(str(table)).to_pyarrow_table()["n"].to_pylist()) == [0, 0, 7, 8]
    assert (writer.progress, read_progress(table).held) == (read_progress(table), {"b": 20})
    append_identifiers(table, {APPLICATION + "b": 25})
    with pytest.raises(LakeOutOfStep):
        writer.append(one_row(table), {"b": 30}, 2)
    assert sorted(DeltaTable(str(table)).to_pyarrow_table()["n"].to_pylist()) == [0, 0, 7, 8]
    assert read_progress(table).held == {"b": 25}
