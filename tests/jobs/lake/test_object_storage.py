"""A lake in a bucket: each commit is made once, whoever makes it, and what is in the tables is read back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lakemq.jobs.errors import LakeOutOfStep, LakeTaken
from lakemq.jobs.lake.query import LakeQuery
from lakemq.jobs.maintenance.erased_files import has_begun
from lakemq.jobs.maintenance.runner import Runner
from lakemq.jobs.maintenance.runs import DONE
from lakemq.jobs.maintenance.temporary_lake_query import temporary_lake_query
from lakemq.jobs.process.run import run_jobs
from lakemq.jobs.replay.plan import ReplayRequest, forget_plan, read_plan, write_plan
from lakemq.jobs.replay.replay import replay
from lakemq.jobs.session.upload_buffers import BUFFERS
from lakemq.jobs.tables.delta_writer import DeltaWriter
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.tables import CONSUME_QUEUE, MESSAGES
from lakemq.model.errors import StoreUnsafe
from lakemq.objects.path import ObjectPath, delta_options
from lakemq.settings import Settings
from lakemq.storage.lake.certain import CertainLake
from lakemq.storage.lake.delta_files import DeltaFiles
from lakemq.storage.lake.log_marks import append_identifiers
from lakemq.storage.lake.progress import read_progress
from lakemq.testing import GatewayProcess, start_gateway
from lakemq.testing.object_store import ObjectStore
from tests.gateway.http_client import connect, pull_all, put_topic
from tests.jobs.conftest import produce_to
from tests.jobs.lake_checks import broker_of, wait_until_compacted
from tests.jobs.streams import LakeRun
from tests.objects.stores import lake_in, path_in

RACES = 20
SECRET = "Erika-Mustermann-17"


pytestmark = pytest.mark.usefixtures("s3a")


class Killed(Exception):
    """Stands for the end of the process."""


class Scene:
    """A gateway of its own, and a lake in a bucket."""

    def __init__(self, spark: SparkSession, gateway: GatewayProcess, store: ObjectStore, settings: Settings) -> None:
        self.spark, self.gateway, self.store, self.settings = spark, gateway, store, settings
        assert isinstance(settings.lake.dir, ObjectPath)
        self.lake = settings.lake.dir
        self.produced = 0

    def runner(self) -> Runner:
        """Of maintenance that merges what there is, and has the tables come up to the log itself."""
        maintenance = self.settings.maintenance.model_copy(update={"small_files_min": 2, "retry_pause_ms": 0})
        settings = self.settings.model_copy(update={"maintenance": maintenance})
        driver = Driver(self.spark, settings.lake)
        lake_query = partial(temporary_lake_query, self.spark, settings, lambda: self.gateway.url, driver)
        return Runner(self.spark, settings, lambda: self.gateway.url, lake_query=lake_query, driver=driver)

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
        scene = Scene(spark, gateway, object_store, settings)
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
    table = DeltaFiles(MESSAGES.path(scene.lake), "broker-a").version(-1)
    assert table is not None
    file = next(path for path, _size in table.sizes())  # others that another test merged away are there too, or not
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


@pytest.mark.long
def test_maintenance_merges_vacuums_and_compares(scene: Scene) -> None:
    runner = scene.runner()
    for job in ("optimize", "vacuum", "retention", "checkpoint-cleanup", "stats", "index-rebuild", "verify"):
        run = runner.run(job, "test")
        assert run.result == DONE, (job, run.error)
    assert run.detail["findings"] == []
    assert run.detail["log_messages"] >= scene.produced


@pytest.mark.long
def test_what_is_erased_is_in_no_object(scene: Scene) -> None:
    secrets = [{"body": f"{SECRET} {at}", "keys": [SECRET]} for at in range(3)]
    produce_to(scene.gateway.url, "users", [*secrets, {"body": "kept"}])
    scene.compact(1)
    assert any(SECRET.encode() in each.read_bytes() for each in scene.lake.rglob("part-*"))
    done = scene.runner().run("erase", "test", {"where": f"key = '{SECRET}'"})
    assert (done.error, done.detail["messages"]) == (None, 3)
    assert done.detail["log"] == {"erased": 3, "not_there": 0}
    assert done.detail["tables"]["messages"] == done.detail["tables"]["message_index"] == 3
    assert [str(each) for each in scene.lake.rglob("*.parquet") if SECRET.encode() in each.read_bytes()] == []
    assert not has_begun(scene.lake)
    read = scene.spark.read.format("delta").load(str(MESSAGES.path(scene.lake))).where("topic = 'users'")
    assert [bytes(row.body) for row in read.collect()] == [b"kept"]
    assert scene.runner().run("verify", "test").detail["findings"] == []


def test_what_spark_sends_is_below_the_work_dir_until_it_is_sent(scene: Scene) -> None:
    context: Any = scene.spark.sparkContext
    folder = Path(context._jsc.hadoopConfiguration().get("fs.s3a.buffer.dir"))
    assert folder.parent.name == BUFFERS
    file, before_ns = "s3a://written/sent", folder.stat().st_mtime_ns
    scene.spark.range(10).write.mode("overwrite").parquet(file)
    assert folder.stat().st_mtime_ns > before_ns  # something was made there
    assert [each.name for each in folder.iterdir() if each.is_file()] == [".held"]
    assert scene.spark.read.parquet(file).count() == 10


def test_what_is_replayed_from_a_bucket_is_sent_once(scene: Scene) -> None:
    with connect(scene.gateway) as http:
        put_topic(http, "again")
        wanted = ReplayRequest("topic = 'a' AND CAST(CAST(body AS STRING) AS INT) < 10", "again", None)

        def end(sent: int, matched: int) -> None:
            if sent:
                raise Killed

        with pytest.raises(Killed):
            replay(scene.spark, scene.lake, scene.gateway.url, wanted, rate_per_s=4, report=end)
        done = replay(scene.spark, scene.lake, scene.gateway.url, wanted, rate_per_s=1_000)
        assert (done.resumed, done.gone) == (True, 0)
        assert len(pull_all(http, "again")) == done.sent == done.matched >= 10
        again = replay(scene.spark, scene.lake, scene.gateway.url, wanted)
        assert again.finished_before
        assert len(pull_all(http, "again")) == done.sent
    assert [each.name for each in (scene.lake / "_replays").rglob("*")] == ["plan.json"]
    plan = read_plan(scene.lake, wanted)
    assert plan is not None
    assert not write_plan(scene.lake, plan, new=True)
    forget_plan(scene.lake, wanted)
    assert read_plan(scene.lake, wanted) is None


def test_a_lake_in_a_bucket_goes_on_with_a_new_log(scene: Scene, tmp_path: Path) -> None:
    """A copy of it, as the other tests go on with the old log."""
    log_id = broker_of(scene.gateway.url)["log_id"]
    with start_gateway(tmp_path / "new", routing__grace_ms=-1) as gateway:
        produce_to(gateway.url, "a", [{"body": "of the new log"}] * 3)
        lake = path_in(scene.store, "s3://written/adopted/lake", tmp_path)
        for each in [each for each in scene.lake.rglob("*") if each.stat().st_size]:  # not what marks a folder
            (lake / str(each.key.relative_to(scene.lake.key))).write_bytes(each.read_bytes())
        settings = scene.settings.model_copy(update={"lake": scene.settings.lake.model_copy(update={"dir": lake})})
        runner = Runner(scene.spark, settings, lambda: gateway.url, driver=Driver(scene.spark, settings.lake))
        renamed = runner.run("adopt", "test").detail["renamed"]
        assert set(renamed[f"broker-a~{log_id[:8]}"].values()) == {log_id}
        progress = read_progress(MESSAGES.path(lake))
        assert progress.logs["broker-a"].log_id == broker_of(gateway.url)["log_id"]
        with pytest.raises(FileExistsError):
            append_identifiers(MESSAGES.path(lake), {"a": 1}, read=progress.version - 1)


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
