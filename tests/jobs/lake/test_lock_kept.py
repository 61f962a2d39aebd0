"""The lake's lock is let go only once nothing commits any more: a second JVM could make the same version else."""

from __future__ import annotations

import gc
from pathlib import Path
from threading import Event, Lock, Thread
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakemq.jobs.lake import merging as module
from lakemq.jobs.lake.lock import LakeLock
from lakemq.jobs.lake.merging import Merging
from lakemq.jobs.lake.query import LakeQuery
from lakemq.jobs.log_client import LogClient
from lakemq.jobs.maintenance import requests, runner
from lakemq.jobs.maintenance.runner import Runner
from lakemq.jobs.maintenance.runs import STOPPED
from lakemq.jobs.process.board import Board
from lakemq.jobs.process.broker_watch import BrokerWatch
from lakemq.jobs.process.run import LAKE, MAINTENANCE, _write_lake  # pyright: ignore[reportPrivateUsage]
from lakemq.jobs.tables.driver import Driver
from lakemq.settings import Lake, Settings
from lakemq.storage.lake.merge_files import scratch_of
from lakemq.traces.batches import NO_BATCHES

AWAY = "http://127.0.0.1:1"


class Stuck:
    """A stream of Spark's that doesn't end within `spark.sql.streaming.stopTimeout`."""

    def stop(self) -> None:
        raise TimeoutError("Stream Execution thread did not stop within the specified timeout")


class Client(LogClient):
    is_closed = False

    def close(self) -> None:
        self.is_closed = True
        super().close()


class Scene:
    """A lake query that runs, as far as its `stop` can see: there are no tables to merge."""

    def __init__(self, spark: SparkSession, lake: Path) -> None:
        settings = Settings(lake=Lake(dir=lake))
        self.driver = Driver(spark, settings.lake)
        self.query: Any = LakeQuery(spark, settings, AWAY, driver=self.driver)
        self.client = self.query._clients["broker-a"] = Client(AWAY)
        self.merging: Any = Merging(spark, settings.lake, self.driver)
        self.query._merging = self.merging
        self.merging.start()


def test_who_takes_the_lock_removes_what_killed_merges_have_left(tmp_path: Path) -> None:
    """Regression: these files hold bodies, erased ones too, and nothing removed them."""
    folder = scratch_of(tmp_path)
    folder.mkdir(parents=True)
    (folder / "1.parquet").write_bytes(b"body")
    holders = iter([None, object()])
    file = SimpleNamespace(getChannel=lambda: SimpleNamespace(tryLock=lambda: next(holders)))
    java = SimpleNamespace(io=SimpleNamespace(RandomAccessFile=lambda path, mode: Path(path).touch() or file))
    session: Any = SimpleNamespace(_jvm=SimpleNamespace(java=java))
    lock = LakeLock(session, tmp_path)
    assert not lock.acquire()
    assert len(list(folder.iterdir())) == 1, "it may be a merge of who holds the lock"
    assert lock.acquire()
    assert list(folder.iterdir()) == []


@pytest.fixture
def scene(spark: SparkSession, tmp_path: Path) -> Scene:
    return Scene(spark, tmp_path / "lake")


def test_a_query_that_spark_cannot_stop_leaves_nothing_else_running(scene: Scene) -> None:
    scene.query._query = Stuck()
    with pytest.raises(TimeoutError):
        scene.query.stop()
    assert not scene.merging._thread.is_alive()
    assert scene.client.is_closed
    assert scene.driver.left_writing


def test_a_query_that_ends_leaves_nothing(scene: Scene) -> None:
    scene.query.stop()
    assert not scene.driver.left_writing


def test_a_merge_or_a_batch_that_goes_on_is_noticed(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_STOP_S_MAX", 0.0)
    goes_on = Event()
    scene.merging.stop()
    scene.merging._thread = thread = Thread(target=goes_on.wait, daemon=True)
    thread.start()
    scene.query.stop()
    assert scene.driver.left_writing
    goes_on.set()
    thread.join()
    scene.driver.left_writing = False
    with scene.query._gate._lock:
        scene.query.stop(grace_s=0.0)
    assert scene.driver.left_writing


def test_a_job_of_maintenance_that_goes_on_is_noticed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_STOP_S_MAX", 0.0)
    settings = Settings(lake=Lake(dir=tmp_path))
    for is_busy in (False, True):
        driver = Driver(spark, settings.lake)
        jobs: Any = Runner(spark, settings, lambda: AWAY, driver=driver)
        if is_busy:
            jobs._turn.acquire()
        jobs.stop()
        assert driver.left_writing == is_busy


def test_a_job_whose_turn_comes_after_the_end_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """It waited in a thread of a pool as the lock was let go."""
    settings = Settings(lake=Lake(dir=tmp_path))
    jobs = Runner(spark, settings, lambda: AWAY, driver=Driver(spark, settings.lake))
    jobs.stop()
    assert jobs.run("optimize", "schedule").result == STOPPED
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("left_writing", [False, True])
def test_the_lock_is_let_go_only_where_nothing_writes_any_more(
    spark: SparkSession, tmp_path: Path, left_writing: bool
) -> None:
    settings, stop = Settings(lake=Lake(dir=tmp_path)), Event()
    driver = Driver(spark, settings.lake)
    driver.left_writing = left_writing
    stop.set()
    watch, board = BrokerWatch(AWAY, stop), Board(lambda: 0)
    _write_lake(spark, settings, watch, {LAKE, MAINTENANCE}, stop, Lock(), driver, NO_BATCHES, board)
    jvm: Any = spark._jvm  # pyright: ignore[reportPrivateUsage]
    for _ in range(2):  # Java closes what nobody holds any more
        gc.collect()
        jvm.System.gc()
    assert requests.is_held(tmp_path) == left_writing
