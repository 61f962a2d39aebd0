"""A lake in a bucket: each commit is made once, whoever makes it, and what is in the tables is read back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lakemq.jobs.errors import LakeOutOfStep, LakeTaken
from lakemq.jobs.lake.query import LakeQuery
from lakemq.jobs.maintenance.command import run_job
from lakemq.jobs.maintenance.runner import Runner
from lakemq.jobs.maintenance.runs import DONE, FAILED
from lakemq.jobs.process.run import run_jobs
from lakemq.jobs.tables.delta_writer import DeltaWriter
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.tables import CONSUME_QUEUE, MESSAGES
from lakemq.model.errors import NotInObjectStorage, StoreUnsafe
from lakemq.objects.path import ObjectPath, delta_options
from lakemq.settings import Settings
from lakemq.storage.lake.certain import CertainLake
from lakemq.storage.lake.progress import read_progress
from lakemq.testing import GatewayProcess, start_gateway
from lakemq.testing.object_store import ObjectStore
from tests.jobs.conftest import produce_to
from tests.jobs.lake_checks import wait_until_compacted
from tests.jobs.streams import LakeRun
from tests.objects.stores import lake_in, path_in

RACES = 20

pytestmark = pytest.mark.usefixtures("s3a")


class Scene:
    """A gateway of its own, and a lake in a bucket."""

    def __init__(self, spark: SparkSession, gateway: GatewayProcess, settings: Settings) -> None:
        self.spark, self.gateway, self.settings = spark, gateway, settings
        self.lake = settings.lake.dir
        self.produced = 0

    def compact(self, count: int) -> None:
        """Produces some messages, and runs the query until the lake holds them."""
        produce_to(self.gateway.url, "a", [{"body": f"{number}", "keys": ["k"]} for number in range(count)])
        self.produced += count
        run = LakeRun(
            lambda: LakeQuery(
                self.spark, self.settings, self.gateway.url, driver=Driver(self.spark, self.settings.lake)
            )
        )
        try:
            wait_until_compacted(self.gateway.url, run.is_alive)
        finally:
            run.stop()


@pytest.fixture(scope="module")
def scene(
    spark: SparkSession, s3a: None, object_store: ObjectStore, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("in_objects")
    settings = Settings(lake=lake_in(object_store, "s3://written/some/lake", folder / "work", trigger_ms=0))
    with start_gateway(folder / "log", routing__grace_ms=-1) as gateway:
        scene = Scene(spark, gateway, settings)
        scene.compact(50)
        yield scene


def test_every_message_is_once_in_each_table(scene: Scene) -> None:
    for table in (MESSAGES, CONSUME_QUEUE):
        path = table.path(scene.lake)
        rows = DeltaTable(str(path), storage_options=delta_options(path)).to_pyarrow_table(
            columns=["topic", "position"]
        )
        mine = [row["position"] for row in rows.to_pylist() if row["topic"] == "a"]
        assert len(mine) == len(set(mine)) == scene.produced
    read = scene.spark.read.format("delta").load(str(MESSAGES.path(scene.lake)))
    assert read.where("topic = 'a'").count() == scene.produced


def test_what_is_there_is_certain_for_the_gateway(scene: Scene) -> None:
    held = read_progress(MESSAGES.path(scene.lake)).held["broker-a"]
    assert CertainLake(scene.lake, "broker-a").look() == (held, None)
    file = next(iter(MESSAGES.path(scene.lake).rglob("*.parquet")))
    content = file.read_bytes()
    file.unlink()
    assert "is missing" in str(CertainLake(scene.lake, "broker-a").look().why)
    file.write_bytes(content)


def test_of_two_writers_of_the_progress_one_is_out_of_step(scene: Scene) -> None:
    path = MESSAGES.path(scene.lake)
    writers = [DeltaWriter(scene.spark, path, Driver(scene.spark, scene.settings.lake)) for _ in range(2)]
    assert [writer.held(["broker-z"]) for writer in writers] == [{"broker-z": None}] * 2
    writers[0].append([], {"broker-z": 1}, 0)
    with pytest.raises(LakeOutOfStep):
        writers[1].append([], {"broker-z": 2}, 0)


def test_of_two_drivers_of_a_bucket_the_first_commits_nothing_more(
    spark: SparkSession, object_store: ObjectStore, tmp_path: Path
) -> None:
    """No lock keeps them apart: they may be on two machines."""
    lake = lake_in(object_store, "s3://fenced/lake", tmp_path)
    path = MESSAGES.path(lake.dir)
    MESSAGES.create(spark, lake.dir)
    first, second = Driver(spark, lake), Driver(spark, lake)
    first.take()
    writer, rival = (DeltaWriter(spark, path, driver) for driver in (first, second))
    writer.held(["broker-a"])
    writer.append([], {"broker-a": 1}, 0)
    second.take()
    assert (first.number, second.number) == (1, 2)
    with pytest.raises(LakeTaken):
        writer.append([], {"broker-a": 2}, 1)
    with pytest.raises(LakeTaken):
        first.take()
    assert rival.held(["broker-a"]) == {"broker-a": 1}
    rival.append([], {"broker-a": 2}, 0)
    assert read_progress(path).held == {"broker-a": 2}


def test_jobs_do_not_start_on_a_careless_store(tmp_path: Path) -> None:
    careless = ObjectStore(is_strict=False)
    try:
        settings = Settings(lake=lake_in(careless, "s3://bucket/lake", tmp_path))
        with pytest.raises(StoreUnsafe):
            run_jobs(settings, "http://127.0.0.1:9", [])
    finally:
        careless.close()


def test_of_all_who_race_for_a_version_one_makes_it(
    spark: SparkSession, object_store: ObjectStore, tmp_path: Path
) -> None:
    """Two through Delta in the JVM, and one from outside of it, which knows nothing of Delta's own locks."""
    table = path_in(object_store, "s3://raced/table", tmp_path)
    spark.range(1).write.format("delta").save(str(table))
    through_delta = entries_by_delta(spark, table)
    rivals: list[Callable[[Path, str], bool]] = [through_delta, through_delta, _make]
    with ThreadPoolExecutor(len(rivals)) as threads:
        for race in range(RACES):
            entry = table / "_delta_log" / f"{race + 100:020}.json"
            tasks = [threads.submit(make, entry, f"rival {who}") for who, make in enumerate(rivals)]
            won = [who for who, task in enumerate(tasks) if task.result()]
            assert len(won) == 1, race
            assert entry.read_bytes().strip() == f"rival {won[0]}".encode()
            entry.unlink()


def test_a_commit_whose_answer_is_lost_is_made_once_and_known_to_be(
    spark: SparkSession, object_store: ObjectStore, tmp_path: Path
) -> None:
    """The request is repeated, and meets the object that it has made itself."""
    table = path_in(object_store, "s3://lost/table", tmp_path)
    spark.range(1).write.format("delta").save(str(table))
    make, entry = entries_by_delta(spark, table), table / "_delta_log" / f"{100:020}.json"
    object_store.answers_to_lose = 1
    assert make(entry, "ours")
    assert object_store.answers_to_lose == 0
    assert entry.read_bytes().strip() == b"ours"
    assert not make(entry, "another's")


def test_maintenance_merges_and_vacuums_and_refuses_what_it_can_not_do(scene: Scene) -> None:
    eager = scene.settings.model_copy(
        update={"maintenance": scene.settings.maintenance.model_copy(update={"small_files_min": 2})}
    )
    runner = Runner(scene.spark, eager, lambda: scene.gateway.url, driver=Driver(scene.spark, eager.lake))
    for job in ("optimize", "vacuum", "retention", "checkpoint-cleanup", "stats"):
        run = runner.run(job, "test")
        assert run.result == DONE, (job, run.error)
    for job in ("index-rebuild", "verify", "erase", "adopt"):
        run = runner.run(job, "test", {"where": "true"})
        assert (run.result, run.attempts) == (FAILED, 1)
        assert "object storage" in str(run.error)
        with pytest.raises(NotInObjectStorage):
            run_job(scene.settings, scene.gateway.url, job, {}, print)


def _make(entry: Any, text: str) -> bool:
    return entry.create(f"{text}\n".encode())


def entries_by_delta(spark: SparkSession, table: ObjectPath) -> Callable[[Path, str], bool]:
    """Makes an entry as Delta's commits do; whether it did."""
    jvm: Any = spark._jvm  # pyright: ignore[reportPrivateUsage]
    java_session: Any = spark._jsparkSession  # pyright: ignore[reportPrivateUsage]
    store = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(java_session, str(table)).store()
    hadoop = java_session.sessionState().newHadoopConf()

    def make(entry: Path, text: str) -> bool:
        lines = jvm.java.util.ArrayList()
        lines.add(text)
        actions = jvm.scala.jdk.javaapi.CollectionConverters.asScala(lines.iterator())
        try:
            store.write(jvm.org.apache.hadoop.fs.Path(str(entry)), actions, False, hadoop)
        except Py4JJavaError as error:
            if "FileAlreadyExistsException" not in str(error.java_exception):
                raise
            return False
        return True

    return make
