"""What a power cut has torn is put back before anybody proves it, whoever begins: the jobs, or a command."""

from __future__ import annotations

import os
import time
from pathlib import Path
from threading import Event, Lock, Thread

import pytest
from pyspark.sql import SparkSession

from lakemq.jobs.errors import BrokerUnavailable
from lakemq.jobs.lake.healing import heal_lake
from lakemq.jobs.maintenance import requests
from lakemq.jobs.maintenance.command import run_job
from lakemq.jobs.maintenance.runner import Runner
from lakemq.jobs.process.board import Board
from lakemq.jobs.process.broker_watch import BrokerWatch
from lakemq.jobs.process.run import LAKE, MAINTENANCE, _write_lake  # pyright: ignore[reportPrivateUsage]
from lakemq.jobs.tables.driver import Driver
from lakemq.settings import Lake, Maintenance, Settings
from lakemq.storage.disk.files import Files
from lakemq.storage.lake.certain import OF_MESSAGES, CertainLake
from lakemq.storage.lake.progress import read_progress
from lakemq.storage.lake.proof_mark import FOLDER, read_marks, write_marks
from lakemq.storage.lake.prove import prove
from lakemq.testing import GatewayProcess
from lakemq.traces.batches import NO_BATCHES
from tests.storage.lake_tables import commit, entry, newest_file

AWAY = "http://127.0.0.1:1"
JOB = "optimize"
WAIT_S = 300


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Proved up to position 10; of the batch after that a file of `messages` is empty, as a power cut leaves one."""
    lake = tmp_path / "lake"
    commit(lake, 0, 10)
    prove(lake)
    commit(lake, 10, 20)
    os.truncate(newest_file(lake, "messages"), 0)
    return lake


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is away here does not come back."""
    monkeypatch.setattr("lakemq.jobs.lake.healing._RETRY_S", 0.0)


def settings_of(lake: Path) -> Settings:
    return Settings(lake=Lake(dir=lake), maintenance=Maintenance(retry_pause_ms=0))


def check_put_back(lake: Path) -> None:
    assert read_progress(lake / "messages").held == {"broker-a": 10}
    assert CertainLake(lake, "broker-a").look().position == 10


@pytest.mark.parametrize("chosen", [{LAKE, MAINTENANCE}, {MAINTENANCE}])
def test_jobs_put_the_lake_back_before_their_maintenance_though_no_broker_answers(
    spark: SparkSession, lake: Path, chosen: set[str]
) -> None:
    settings, stop = settings_of(lake), Event()
    watch = BrokerWatch(AWAY, stop)
    watch.start()
    driver = Driver(spark, settings.lake)
    shared = Lock(), driver, NO_BATCHES, Board(lambda: 0)
    jobs = Thread(target=_write_lake, args=(spark, settings, watch, chosen, stop, *shared))
    request = requests.submit(lake, JOB, {})
    jobs.start()
    try:
        end = time.monotonic() + WAIT_S
        while requests.take_result(lake, request) is None:
            assert jobs.is_alive()
            assert time.monotonic() < end
            time.sleep(0.1)
    finally:
        stop.set()
        jobs.join()
    check_put_back(lake)


def test_a_command_of_maintenance_puts_the_lake_back_first(spark: SparkSession, lake: Path) -> None:
    assert run_job(settings_of(lake), AWAY, JOB, {}, lambda _: None).error is None
    check_put_back(lake)


def test_maintenance_without_a_lake_query_looks_again_after_a_sync_that_failed(spark: SparkSession, lake: Path) -> None:
    heal_lake(lake, lambda: AWAY)
    commit(lake, 10, 20, ("messages",))
    marks = read_marks(lake)
    mark = marks["messages"]
    marks["messages"] = type(mark)(mark.version, mark.checksum, mark.held, mark.version + 1)
    write_marks(lake, marks, Files())
    settings = settings_of(lake)
    driver = Driver(spark, settings.lake)
    runner = Runner(spark, settings, lambda: AWAY, driver=driver)
    assert "nobody has looked" in str(runner.run(JOB, "test").error)
    runner = Runner(spark, settings, lambda: AWAY, driver=driver, heal=lambda: heal_lake(lake, lambda: AWAY))
    assert runner.run(JOB, "test").error is None
    check_put_back(lake)


# Brokers that are away ---------------------------------------------------------------------


@pytest.fixture
def unmarked(tmp_path: Path) -> Path:
    """One that was put back from a copy: its log has to be asked before anything of it goes."""
    commit(tmp_path, 0, 10)
    return tmp_path


def tear_first(lake: Path) -> None:
    os.truncate(entry(lake, "messages", 0), 0)


def lose_rows(lake: Path) -> None:
    newest_file(lake, "messages").unlink()


@pytest.mark.parametrize("damage", [tear_first, lose_rows])
def test_rows_go_only_once_all_brokers_have_said_that_their_logs_have_them(
    gateway: GatewayProcess, unmarked: Path, damage: object
) -> None:
    assert callable(damage)
    damage(unmarked)
    for brokers in ("", AWAY, f"{gateway.url},{AWAY}"):
        with pytest.raises(BrokerUnavailable, match="mend the lake"):
            heal_lake(unmarked, lambda: brokers)  # noqa: B023 (called within the round)
        assert entry(unmarked, "messages", 0).exists()
    heal_lake(unmarked, lambda: gateway.url)
    assert read_progress(unmarked / "messages").version == -1
    assert not (unmarked / FOLDER / "proved.json").exists()
    assert {read_progress(unmarked / name).version for name in OF_MESSAGES} == {-1, 0}
