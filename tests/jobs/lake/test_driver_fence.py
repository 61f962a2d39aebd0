"""Two drivers of one lake: one that stood still while another took its place commits nothing more."""

from __future__ import annotations

import shutil
from collections.abc import Callable
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
from lakemq.jobs.tables.new_file import NewFile
from lakemq.jobs.tables.tables import MESSAGE_INDEX, MESSAGES, TABLES
from lakemq.settings import Lake, Settings
from lakemq.storage.lake.progress import read_progress
from tests.jobs.empty_lake import put_tables


class Scene:
    """A lake of two empty tables, and a driver that has taken it."""

    def __init__(self, spark: SparkSession, lake: Path) -> None:
        put_tables(spark, lake)
        for table in TABLES:
            if table.name not in {MESSAGES.name, MESSAGE_INDEX.name}:
                shutil.rmtree(table.path(lake))
        self.spark, self.lake = spark, lake
        self.paths = [MESSAGES.path(lake), MESSAGE_INDEX.path(lake)]
        self.first = self.taken()

    def taken(self) -> Driver:
        driver = Driver()
        driver.take(self.spark, self.paths)
        return driver

    def writer(self, path: Path, driver: Driver) -> DeltaWriter:
        writer = DeltaWriter(self.spark, path, driver=driver)
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
    scene.first.take(scene.spark, scene.paths)
    assert scene.versions() == versions  # what is its own already it leaves
    assert scene.taken().number == 2
    assert scene.numbers() == ["2"] * 2


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


def test_who_was_replaced_begins_no_run_and_no_maintenance(scene: Scene) -> None:
    scene.taken()
    with pytest.raises(LakeTaken):
        scene.first.take(scene.spark, scene.paths)
    with pytest.raises(LakeTaken):
        Work(scene.spark, Settings(lake=Lake(dir=scene.lake)), "", driver=scene.first).check_driver()
    assert scene.numbers() == ["2"] * 2


def test_a_replaced_driver_without_messages_notices_too(scene: Scene) -> None:
    stop = Event()
    scene.taken()
    with pytest.raises(LakeTaken):
        end_when_replaced(scene.spark, scene.lake, scene.first, stop, every_s=0.0)


def test_maintenance_takes_a_lake_that_its_driver_has_not_taken_yet(scene: Scene) -> None:
    """As a command does, and the jobs of maintenance alone: what they write is fenced by a number as all else is."""
    driver = Driver()
    settings = Settings(lake=Lake(dir=scene.lake))
    runner = Runner(scene.spark, settings, lambda: "", driver=driver)
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
    set_number = module._set_number  # pyright: ignore[reportPrivateUsage]

    def slow(session: SparkSession, table: Path, snapshot: Any, number: int) -> bool:
        found = set_number(session, table, snapshot, number)
        if not others:
            others.append(Driver())
            others[0].take(scene.spark, scene.paths[1:])
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
    transaction = DeltaTransactions(scene.spark, path).begin(0)  # as a statement's: in nobody's name
    removed = transaction.snapshot().allFiles().collectAsList()[0].remove()
    scene.taken()
    jvm: Any = scene.spark._jvm  # pyright: ignore[reportPrivateUsage]
    nothing = getattr(jvm.scala.collection.immutable, "Nil$").__getattr__("MODULE$")
    operation = getattr(jvm.org.apache.spark.sql.delta, "DeltaOperations$ManualUpdate$").__getattr__("MODULE$")
    with pytest.raises(Exception, match="MetadataChanged"):
        transaction.commit(nothing.appended(removed), operation)
    assert len(DeltaTable(str(path)).file_uris()) == 1


def test_of_two_that_take_a_lake_at_once_one_has_it(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """One stands still between its look at the numbers and its own; and one amid the tables."""
    for stands_still_at in (1, 2):
        set_number, calls = module._set_number, iter(range(1, 100))  # pyright: ignore[reportPrivateUsage]
        others: list[Driver] = []

        def slow(session: SparkSession, table: Path, snapshot: Any, number: int) -> bool:
            if next(calls) == stands_still_at:  # noqa: B023 (called within the round)
                monkeypatch.setattr(module, "_set_number", set_number)  # noqa: B023
                others.append(scene.taken())  # noqa: B023
            return set_number(session, table, snapshot, number)  # noqa: B023

        monkeypatch.setattr(module, "_set_number", slow)
        late = scene.taken()
        (early,) = others
        assert late.number == early.number + 1
        assert scene.numbers() == [str(late.number)] * 2
        with pytest.raises(LakeTaken):
            early.check_now(scene.spark, scene.paths)
