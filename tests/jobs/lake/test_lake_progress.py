"""Our reading of progress against Delta's own, on a table that Delta writes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakemq.jobs.tables.delta_writer import DeltaWriter
from lakemq.storage.lake.progress import APPLICATION, read_progress
from tests.jobs.lake_checks import write_file


def test_where_there_is_no_table_nothing_is_held(tmp_path: Path) -> None:
    progress = read_progress(tmp_path / "nothing")
    assert (progress.version, progress.held) == (-1, {})


def test_progress_is_what_delta_says_before_and_after_checkpoints(spark: SparkSession, tmp_path: Path) -> None:
    table = tmp_path / "t"
    properties = "TBLPROPERTIES ('delta.checkpointInterval' = '3')"
    spark.sql(f"CREATE TABLE delta.`{table}` (n bigint) USING delta {properties}")
    writer = DeltaWriter(spark, table)
    writer.held([])
    for epoch in range(1, 8):
        writer.append(
            write_file(table, pa.table({"n": [0]})),
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
