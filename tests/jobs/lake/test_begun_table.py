"""A table whose log is a folder without an entry: it is being made, or a kill ended that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from lakemq.jobs.maintenance.layout import optimize, vacuum
from lakemq.jobs.maintenance.stats import stats
from lakemq.jobs.maintenance.work import Work
from lakemq.jobs.sql.catalog import find_table, register_catalog
from lakemq.jobs.tables.begun import STAGED
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.table_log import java_class
from lakemq.jobs.tables.tables import SCHEDULED, TABLES
from lakemq.jobs.tables.topic_table import find_topic_table, make_topic_table, topic_tables
from lakemq.model.column_type import STRING, ColumnField, ColumnType, struct_of
from lakemq.model.topic_table import table_name
from lakemq.objects.table_place import sql_place
from lakemq.settings import Lake, Settings
from lakemq.storage.lake.delta_log import FOLDER
from lakemq.testing.object_store import ObjectStore
from tests.objects.stores import path_in

COLUMNS = struct_of(ColumnField("a", ColumnType(STRING)))
HALF_WRITTEN = ".00000000000000000000.json.0a1b2c3d.tmp"


def begin(table: Path) -> Path:
    """Leaves of a table what a kill of its first commit leaves."""
    log = table / FOLDER
    (log / STAGED).mkdir(parents=True)
    (log / HALF_WRITTEN).write_bytes(b"")
    return log


def test_none_is_there_and_it_can_be_made(spark: SparkSession, tmp_path: Path) -> None:
    settings = Settings(lake=Lake(dir=tmp_path))
    driver = Driver(spark, settings.lake)
    for table in TABLES:
        begin(table.path(tmp_path))
    begin(tmp_path / table_name("orders"))
    assert find_topic_table(tmp_path, "orders") is None
    assert list(topic_tables(tmp_path)) == []

    for table in TABLES:
        table.create(spark, tmp_path)
        assert spark.table(sql_place(table.path(tmp_path))).count() == 0
    driver.take()
    work = Work(spark, settings, "", driver=driver)
    for job in (optimize, vacuum, stats):
        job(work)
    register_catalog(spark, tmp_path)

    made, is_new = make_topic_table(spark, tmp_path, "orders", COLUMNS)
    assert is_new
    assert find_topic_table(tmp_path, "orders") == made
    register_catalog(spark, tmp_path)
    assert find_table(spark, made.path.name) is not None


@pytest.mark.usefixtures("s3a")
def test_it_can_be_made_in_a_bucket_too(spark: SparkSession, object_store: ObjectStore, tmp_path: Path) -> None:
    lake = path_in(object_store, "s3://begun/lake", tmp_path)
    jvm: Any = spark._jvm  # pyright: ignore[reportPrivateUsage]
    java_session: Any = spark._jsparkSession  # pyright: ignore[reportPrivateUsage]
    for folder in (SCHEDULED.path(lake), lake / table_name("orders")):
        place = java_class(jvm, "org.apache.hadoop.fs.Path")(str(folder / FOLDER / STAGED))
        assert place.getFileSystem(java_session.sessionState().newHadoopConf()).mkdirs(place)
    SCHEDULED.create(spark, lake)
    assert spark.table(sql_place(SCHEDULED.path(lake))).count() == 0
    made, _ = make_topic_table(spark, lake, "orders", COLUMNS)
    assert find_topic_table(lake, "orders") == made


def test_one_whose_first_entry_is_lost_is_no_new_one(spark: SparkSession, tmp_path: Path) -> None:
    log = begin(tmp_path / table_name("orders"))
    (log / "00000000000000000001.json").write_bytes(b"")
    with pytest.raises(DeltaError):
        find_topic_table(tmp_path, "orders")
    with pytest.raises(DeltaError):
        make_topic_table(spark, tmp_path, "orders", COLUMNS)
