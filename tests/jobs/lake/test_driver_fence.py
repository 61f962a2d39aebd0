"""Two drivers of one lake: one that stood still while another took its place commits nothing more."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakemq.jobs.errors import LakeTaken
from lakemq.jobs.maintenance.runner import Runner
from lakemq.jobs.maintenance.work import Work
from lakemq.jobs.process.replaced import end_when_replaced
from lakemq.jobs.tables import driver as module
from lakemq.jobs.tables.delta_transactions import DeltaTransactions
from lakemq.jobs.tables.delta_writer import DeltaWriter
from lakemq.jobs.tables.driver import PROPERTY, Driver
from lakemq.jobs.tables.merger import TableMerger
from lakemq.jobs.tables.new_file import NewFile
from lakemq.jobs.tables.scheduled import SCHEDULED
from lakemq.jobs.tables.scheduled_writer import ScheduledWriter
from lakemq.jobs.tables.table import LakeTable
from lakemq.jobs.tables.table_log import TableLog
from lakemq.jobs.tables.tables import MESSAGE_INDEX, MESSAGES, TABLES
from lakemq.model.merging import Limits
from lakemq.settings import Lake, Settings
from lakemq.storage.lake.progress import read_progress
from tests.jobs.empty_lake import put_tables


class Scene:
    """A lake of two empty tables, and a driver that has taken it."""

    def __init__(
        self, spark: SparkSession, lake: Path, tables: Sequence[LakeTable] = (MESSAGES, MESSAGE_INDEX)
    ) -> None:
        put_tables(spark, lake)
        for table in TABLES:
            if table not in tables:
                shutil.rmtree(table.path(lake))
        self.spark, self.lake = spark, lake
        self.settings = Settings(lake=Lake(dir=lake, shared=True))
        self.paths = [table.path(lake) for table in tables]
        self.first = self.taken()

    def taken(self) -> Driver:
        driver = Driver(self.spark, self.settings.lake)
        driver.take()
        return driver

    def writer(self, path: Path, driver: Driver) -> DeltaWriter:
        writer = DeltaWriter(self.spark, path, driver)
        writer.held(["broker-a"])
        return writer

    def numbers(self) -> list[str | None]:
        return [DeltaTable(str(path)).metadata().configuration.get(PROPERTY) for path in self.paths]

    def versions(self) -> list[int]:
        return [DeltaTable(str(path)).version() for path in self.paths]


@pytest.fixture
def scene(spark: SparkSession, tmp_path: Path) -> Scene:
    return Scene(spark, tmp_path / "lake")


def pause_at_commit(monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object]) -> None:
    """What a SIGSTOP between a transaction's begin and its commit lets happen."""
    begin = DeltaTransactions.begin

    def begin_and_stand_still(transactions: DeltaTransactions, version: int) -> Any:
        transaction = begin(transactions, version)
        monkeypatch.setattr(DeltaTransactions, "begin", begin)
        meanwhile()
        return transaction

    monkeypatch.setattr(DeltaTransactions, "begin", begin_and_stand_still)


def test_each_driver_has_the_next_number_in_every_table(scene: Scene) -> None:
    assert scene.numbers() == ["1"] * 2
    versions = scene.versions()
    scene.first.take()
    assert scene.versions() == versions  # what is its own already it leaves
    assert scene.taken().number == 2
    assert scene.numbers() == ["2"] * 2


def test_of_a_lake_that_only_this_machine_writes_no_table_has_a_number(spark: SparkSession, tmp_path: Path) -> None:
    """Its lock keeps all others out, and each number would be a commit. One that somebody has numbered keeps to it."""
    lake = Lake(dir=tmp_path / "lake")
    put_tables(spark, lake.dir)
    path = MESSAGES.path(lake.dir)
    version = DeltaTable(str(path)).version()
    alone = Driver(spark, lake)
    alone.take()
    assert alone.has_taken
    assert DeltaTable(str(path)).version() == version
    elsewhere = Driver(spark, lake.model_copy(update={"shared": True}))
    elsewhere.take()
    assert elsewhere.number == 1
    with pytest.raises(LakeTaken):  # one without messages notices too, and heals and maintains nothing more
        Work(spark, Settings(lake=lake), "", driver=alone).check_driver()
    with pytest.raises(LakeTaken):
        end_when_replaced(alone, Event(), every_s=0.0)
    writer = DeltaWriter(spark, path, alone)
    writer.held(["broker-a"])
    with pytest.raises(LakeTaken):
        writer.append([], {"broker-a": 1}, 0)
    with pytest.raises(LakeTaken):
        alone.take()
    later = Driver(spark, lake)
    later.take()
    assert later.number == 2


def test_who_stood_still_at_the_commit_of_any_table_does_not_commit(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = scene.first
    for path in scene.paths:
        writer = scene.writer(path, driver)
        successors: list[Driver] = []
        pause_at_commit(monkeypatch, lambda: successors.append(scene.taken()))  # noqa: B023 (called within the round)
        with pytest.raises(LakeTaken):
            writer.append([], {"broker-a": 10}, 1)
        assert read_progress(path).held == {}
        with pytest.raises(LakeTaken):  # nor does it begin anything more
            writer.append([], {"broker-a": 10}, 2)
        (driver,) = successors
    scene.writer(scene.paths[0], driver).append([], {"broker-a": 10}, 1)
    assert read_progress(scene.paths[0]).held == {"broker-a": 10}


def test_who_stood_still_at_the_commit_of_a_merge_does_not_commit(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, writer = MESSAGE_INDEX.path(scene.lake), scene.writer(MESSAGE_INDEX.path(scene.lake), scene.first)
    for epoch in (1, 2):
        with NewFile(path, MESSAGE_INDEX.schema, MESSAGE_INDEX.statistics) as file:
            file.write(pa.RecordBatch.from_pylist([{"broker": "broker-a"}], schema=MESSAGE_INDEX.schema))
            writer.append([file.close()], {"broker-a": epoch}, epoch)
    files = DeltaTable(str(path)).file_uris()
    merger = TableMerger(
        scene.spark, MESSAGE_INDEX.layout(scene.lake), scene.lake, Limits(2, 1 << 30), lambda: False, scene.first
    )
    pause_at_commit(monkeypatch, scene.taken)
    with pytest.raises(Exception, match="MetadataChanged"):
        merger.step()
    with pytest.raises(LakeTaken):
        merger.step()
    assert DeltaTable(str(path)).file_uris() == files


def test_who_stood_still_at_the_commit_of_what_waits_does_not_commit(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(spark, tmp_path / "lake", (MESSAGES, SCHEDULED))
    path = SCHEDULED.path(scene.lake)
    writer = ScheduledWriter(spark, path, scene.first)
    writer.held(["broker-a"])
    pause_at_commit(monkeypatch, scene.taken)
    for epoch in (1, 2):
        with pytest.raises(LakeTaken):
            writer.append([], {"broker-a": 10}, epoch)
    assert read_progress(path).held == {}


def test_who_was_replaced_begins_no_run_and_no_maintenance(scene: Scene) -> None:
    scene.taken()
    with pytest.raises(LakeTaken):
        scene.first.take()
    with pytest.raises(LakeTaken):
        Work(scene.spark, scene.settings, "", driver=scene.first).check_driver()
    assert scene.numbers() == ["2"] * 2


def test_a_replaced_driver_without_messages_notices_too(scene: Scene) -> None:
    stop = Event()
    scene.taken()
    with pytest.raises(LakeTaken):
        end_when_replaced(scene.first, stop, every_s=0.0)


def test_maintenance_takes_a_lake_that_its_driver_has_not_taken_yet(scene: Scene) -> None:
    """As a command does, and the jobs of maintenance alone: what they write is fenced by a number as all else is."""
    driver = Driver(scene.spark, scene.settings.lake)
    runner = Runner(scene.spark, scene.settings, lambda: "", driver=driver)
    assert runner.run("checkpoint-cleanup", "test").error is None
    assert scene.numbers() == ["2"] * 2
    assert driver.number == 2
    scene.taken()
    assert "another driver has taken" in str(runner.run("checkpoint-cleanup", "test").error)
    assert scene.numbers() == ["3"] * 2


def test_who_takes_some_of_the_tables_shares_its_number_with_nobody(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lake may lack the first table, when it was moved away; who takes it with all tables meanwhile is another."""
    others: list[Driver] = []
    calls = count()
    set_number = module._set_number  # pyright: ignore[reportPrivateUsage]

    def slow(table: TableLog, snapshot: Any, number: int) -> bool:
        found = set_number(table, snapshot, number)
        if next(calls) == 0:
            away = scene.paths[0].rename(scene.lake / "away")
            others.append(scene.taken())
            away.rename(scene.paths[0])
        return found

    monkeypatch.setattr(module, "_set_number", slow)
    late = scene.taken()
    assert late.number > others[0].number
    assert scene.numbers() == [str(late.number)] * 2


def test_a_statement_that_was_under_way_fails_as_another_driver_takes_the_table(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Maintenance deletes by Spark's statements, which know of no driver: Delta itself stops them."""
    path = MESSAGE_INDEX.path(scene.lake)
    with NewFile(path, MESSAGE_INDEX.schema, MESSAGE_INDEX.statistics) as file:
        writer = scene.writer(path, scene.first)
        file.write(pa.RecordBatch.from_pylist([{}], schema=MESSAGE_INDEX.schema))
        writer.append([file.close()], {"broker-a": 1}, 1)
    nobody = Driver(scene.spark, scene.settings.lake)  # as a statement's
    transaction = DeltaTransactions(scene.spark, path, nobody).begin(0)
    removed = transaction.snapshot().allFiles().collectAsList()[0].remove()
    scene.taken()
    log = TableLog(scene.spark, path)
    operation = getattr(log.jvm.org.apache.spark.sql.delta, "DeltaOperations$ManualUpdate$").__getattr__("MODULE$")
    with pytest.raises(Exception, match="MetadataChanged"):
        transaction.commit(log.nothing.appended(removed), operation)
    assert len(DeltaTable(str(path)).file_uris()) == 1


def test_of_two_that_take_a_lake_at_once_one_has_it(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """One stands still between its look at the numbers and its own; and one amid the tables."""
    for stands_still_at in (1, 2):
        set_number, calls = module._set_number, iter(range(1, 100))  # pyright: ignore[reportPrivateUsage]
        others: list[Driver] = []

        def slow(table: TableLog, snapshot: Any, number: int) -> bool:
            if next(calls) == stands_still_at:  # noqa: B023 (called within the round)
                monkeypatch.setattr(module, "_set_number", set_number)  # noqa: B023
                others.append(scene.taken())  # noqa: B023
            return set_number(table, snapshot, number)  # noqa: B023

        monkeypatch.setattr(module, "_set_number", slow)
        late = scene.taken()
        (early,) = others
        assert late.number == early.number + 1
        assert scene.numbers() == [str(late.number)] * 2
        with pytest.raises(LakeTaken):
            early.check_now()
