"""A lake whose folder has a name that a glob, a URL or a statement would read otherwise."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakemq.jobs.maintenance.erased_files import remove_files
from lakemq.jobs.maintenance.layout import optimize, vacuum
from lakemq.jobs.maintenance.retention import delete_rows
from lakemq.jobs.maintenance.runs import Run, append_run, forget_runs, read_runs
from lakemq.jobs.maintenance.stats import stats
from lakemq.jobs.maintenance.work import Work
from lakemq.jobs.replay.plan import ReplayRequest, make_plan, rows_of
from lakemq.jobs.served.own_table import topic_of_own
from lakemq.jobs.sql.catalog import find_table, place_of, register_catalog
from lakemq.jobs.tables.delta_writer import DeltaWriter
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.holes import ERASED, Hole, append_holes, read_holes
from lakemq.jobs.tables.new_file import NewFile
from lakemq.jobs.tables.tables import MESSAGES
from lakemq.jobs.tables.topic_table import find_topic_table, make_topic_table
from lakemq.model.column_type import STRING, ColumnField, ColumnType, struct_of
from lakemq.settings import Lake, Maintenance, Settings
from lakemq.storage.lake.delta_files import DeltaFiles
from lakemq.testing.object_store import ObjectStore
from tests.objects.stores import path_in
from tests.objects.test_table_place import FIT

RUN = Run("id", "stats", "command", 1, 2, 1, "done", None, 0, 0, 0, 0, {})
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def message(position: int) -> dict[str, object]:
    return {
        "broker": "broker-a",
        "position": position,
        "topic": "t",
        "queue_id": 0,
        "queue_offset": position,
        "message_id": f"broker-a.829fe362f930-1.{position}",
        "body": b"x",
        "keys": ["k"],
        "store_time": NOW,
        "store_date": date(2026, 1, 1),
        "born_time": NOW,
    }


def test_all_that_is_done_with_a_lake_is_done_in_a_folder_of_any_name(spark: SparkSession, tmp_path: Path) -> None:
    lake = tmp_path / FIT / "lake"
    settings = Settings(lake=Lake(dir=lake), maintenance=Maintenance(small_files_min=2))
    driver = Driver(spark, settings.lake)
    for _ in range(2):  # the second looks at what the first has made
        MESSAGES.create(spark, lake)
    writer = DeltaWriter(spark, MESSAGES.path(lake), driver)
    for position in range(3):
        writer.held(["broker-a"])
        with NewFile(MESSAGES.path(lake), MESSAGES.schema, MESSAGES.statistics) as file:
            file.write(pa.RecordBatch.from_pylist([message(position)], MESSAGES.schema))
            added = file.close()
        writer.append([added], {"broker-a": position + 1}, 0)
    work = Work(spark, settings, "", driver=driver)
    assert work.rows(MESSAGES).count() == 3
    assert optimize(work).detail["tables"][MESSAGES.name]["files_after"] == 1
    assert delete_rows(work, MESSAGES.path(lake), "position = 1") == 1
    assert remove_files(work, MESSAGES.path(lake))["files"] == 4
    held = DeltaFiles(MESSAGES.path(lake), "broker-a").version(3)
    assert held is not None
    assert held.held == 3

    plan = make_plan(spark, lake, ReplayRequest("topic = 't'", "x", None), 100)
    assert [batch.count for batch in plan.batches] == [2]
    assert rows_of(spark, lake, plan, plan.batches[0]).count() == 2

    append_holes(lake, "broker-a", [Hole(1, 1)], ERASED)
    assert read_holes(lake, "broker-a") == [Hole(1, 1)]
    append_run(lake, RUN)
    assert [run.run_id for run in read_runs(lake)] == ["id"]
    assert forget_runs(lake, 1_000) == 1
    assert stats(work).detail["tables"] == {MESSAGES.name: 1}

    for columns in (columns_of("a"), columns_of("a", "b")):
        made, _ = make_topic_table(spark, lake, "t", columns)
        assert find_topic_table(lake, "t") == made
    assert {MESSAGES.name, made.path.name} <= vacuum(work).detail["deleted"].keys()

    register_catalog(spark, lake)
    assert spark.table("messages").count() == 2
    assert {"a", "b"} <= set(spark.table(made.path.name).columns)
    assert [each.name for each in tmp_path.iterdir()] == [FIT]


def columns_of(*names: str) -> ColumnType:
    return struct_of(*(ColumnField(name, ColumnType(STRING)) for name in names))


@pytest.mark.usefixtures("s3a")
def test_a_bucket_has_names_of_any_kind_too(spark: SparkSession, object_store: ObjectStore, tmp_path: Path) -> None:
    lake = path_in(object_store, "s3://odd/a lake/{x,y} 100% ä", tmp_path)
    made, _ = make_topic_table(spark, lake, "odd-topic", columns_of("a"))
    assert find_topic_table(lake, "odd-topic") == made
    for _ in range(2):  # the second finds what the first has made
        register_catalog(spark, lake)
        found = find_table(spark, made.path.name)
        assert place_of(spark, found) == str(made.path)
        assert spark.table(made.path.name).count() == 0
        assert topic_of_own(spark, made.path.name) == "odd-topic"
