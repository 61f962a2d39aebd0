"""What `checkpoint-cleanup` leaves of the tables' logs: a day's versions, an entry each."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakemq.jobs.maintenance.cleanup import clean_up
from lakemq.jobs.maintenance.work import Work
from lakemq.jobs.tables.delta_writer import DeltaWriter
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.tables import CONSUME_QUEUE, TRANSACTIONS
from lakemq.settings import Lake, Settings
from lakemq.storage.disk.clock import SystemClock
from lakemq.storage.lake.delta_log import all_of_log, drop_old_sums, entries_of
from lakemq.storage.lake.heal import SET_ASIDE
from lakemq.storage.lake.progress import read_progress
from lakemq.storage.lake.proof_mark import FOLDER
from tests.jobs.empty_lake import put_tables
from tests.jobs.lake.test_merging import checkpoint
from tests.jobs.lake_checks import write_file

HOUR_S = 3600


def fill(spark: SparkSession, lake: Path, commits: int) -> None:
    """A row a commit, version n the nth; a checkpoint of version 3."""
    writer = DeltaWriter(spark, CONSUME_QUEUE.path(lake), Driver(spark, Lake(dir=lake)))
    writer.held([])
    for at in range(1, commits + 1):
        row = {"topic": "a", "queue_id": 0, "queue_offset": at, "broker": "b", "position": at, "size": 1, "tag_hash": 0}
        rows = pa.Table.from_pylist([row], schema=CONSUME_QUEUE.schema)
        writer.append(write_file(CONSUME_QUEUE.path(lake), rows), {"b": at}, at)
        if at == 3:
            checkpoint(spark, CONSUME_QUEUE.path(lake))


def positions(spark: SparkSession, lake: Path, version: int) -> list[list[int]]:
    """As two readers see that version."""
    path = str(CONSUME_QUEUE.path(lake))
    by_spark = spark.read.format("delta").option("versionAsOf", version).load(path).select("position").toArrow()
    by_rust = DeltaTable(path, version=version).to_pyarrow_table()
    return [sorted(found["position"].to_pylist()) for found in (by_spark, by_rust)]


def test_entries_go_by_the_hour_and_every_version_of_the_last_day_stays(spark: SparkSession, tmp_path: Path) -> None:
    put_tables(spark, tmp_path)
    fill(spark, tmp_path, 6)
    log = CONSUME_QUEUE.path(tmp_path) / "_delta_log"
    now_s = SystemClock().now_ms() / 1000
    for path in log.iterdir():
        version = int(path.name.lstrip(".")[:20]) if path.name.lstrip(".")[:20].isdigit() else 9
        hours_ago = {0: 40, 1: 39, 2: 38, 3: 28, 4: 23}.get(version, 0)
        then_s = now_s - hours_ago * HOUR_S
        os.utime(path, (then_s, then_s))
    done = clean_up(Work(spark, Settings(lake=Lake(dir=tmp_path)), "", driver=Driver(spark, Lake(dir=tmp_path))))
    assert done.detail["log_files"] > 0
    assert list(entries_of(CONSUME_QUEUE.path(tmp_path))) == [3, 4, 5, 6]
    for version in (4, 5, 6):
        assert positions(spark, tmp_path, version) == [list(range(1, version + 1))] * 2


def test_without_old_checksums_old_versions_are_what_they_were(spark: SparkSession, tmp_path: Path) -> None:
    put_tables(spark, tmp_path)
    fill(spark, tmp_path, 6)
    path = CONSUME_QUEUE.path(tmp_path)
    assert drop_old_sums(all_of_log(path)) == 0
    removed = drop_old_sums(all_of_log(path), keep=1)
    assert removed > 0
    there = {each.name for each in (path / "_delta_log").iterdir() if each.is_file()}
    assert f"{5:020}.json" in there
    assert not [name for name in there if name.startswith((f"{4:020}.crc", f".{4:020}"))]
    assert f"{6:020}.crc" in there
    assert f"{3:020}.checkpoint.parquet" in there
    for version in (2, 5, 6):
        assert positions(spark, tmp_path, version) == [list(range(1, version + 1))] * 2
    assert read_progress(path).held == {"b": 6}
    fill(spark, tmp_path, 1)
    assert len(positions(spark, tmp_path, 7)[0]) == 7


def test_the_log_of_a_table_of_an_earlier_version_is_kept_as_long_as_a_new_ones(
    spark: SparkSession, tmp_path: Path
) -> None:
    put_tables(spark, tmp_path)
    path = TRANSACTIONS.path(tmp_path)
    before = (
        "'delta.logRetentionDuration' = 'interval 2 days', 'delta.deletedFileRetentionDuration' = 'interval 1 days'"
    )
    spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ({before})")

    def configuration() -> dict[str, Any]:
        return dict(DeltaTable(str(path)).metadata().configuration)

    old = configuration()
    TRANSACTIONS.create(spark, tmp_path)
    assert configuration() == old | {"delta.logRetentionDuration": "interval 25 hours"}
    version = DeltaTable(str(path)).version()
    TRANSACTIONS.create(spark, tmp_path)
    assert DeltaTable(str(path)).version() == version


def test_what_a_crash_left_half_written_in_a_log_goes_after_a_day(spark: SparkSession, tmp_path: Path) -> None:
    put_tables(spark, tmp_path)
    log = TRANSACTIONS.path(tmp_path) / "_delta_log"
    before = {each.name for each in log.iterdir()}
    day_ago_s = SystemClock().now_ms() / 1000 - 25 * HOUR_S
    for name, is_old in (("old", True), ("new", False)):
        for path in (log / f".{9:020}.json.{name}.tmp", log / f"..{9:020}.json.{name}.tmp.crc"):
            path.write_text("half")
            if is_old:
                os.utime(path, (day_ago_s, day_ago_s))
    aside = [tmp_path / FOLDER / SET_ASIDE / str(int(ms)) for ms in (day_ago_s * 1000, SystemClock().now_ms())]
    for folder in aside:
        folder.mkdir(parents=True)
    done = clean_up(Work(spark, Settings(lake=Lake(dir=tmp_path)), "", driver=Driver(spark, Lake(dir=tmp_path))))
    assert [each.exists() for each in aside] == [False, True]
    assert done.detail["files"] == 2
    assert done.detail["set_aside"] == 1
    after = {each.name for each in log.iterdir()}
    assert after - before == {f".{9:020}.json.new.tmp", f"..{9:020}.json.new.tmp.crc"}
