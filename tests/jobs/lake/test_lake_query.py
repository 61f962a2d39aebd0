"""The lake query in this process's session, on a real gateway."""

from __future__ import annotations

import dataclasses
import shutil
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakemq.jobs.errors import LakeOutOfStep, LakeTaken
from lakemq.jobs.lake.query import CHECKPOINTS, LakeQuery
from lakemq.jobs.lake.topic_tables_kept import TopicTablesKept
from lakemq.jobs.maintenance.adopt import adopt
from lakemq.jobs.maintenance.work import Work
from lakemq.jobs.source.plan import StreamOffset
from lakemq.jobs.tables.delta_writer import DeltaWriter
from lakemq.jobs.tables.driver import PROPERTY, Driver
from lakemq.jobs.tables.holes import ERASED, Hole, append_holes, read_holes
from lakemq.jobs.tables.tables import MESSAGE_INDEX, MESSAGES, TABLES
from lakemq.model.errors import LogReplaced
from lakemq.model.schema import SchemaVersion
from lakemq.model.topic_table import table_name
from lakemq.settings import Lake, Settings
from lakemq.storage.disk.clock import SystemClock
from lakemq.storage.lake.certain import CertainLake
from lakemq.storage.lake.log_marks import LogMark, append_identifiers, replaced
from lakemq.storage.lake.progress import read_progress
from lakemq.testing import GatewayProcess, start_gateway
from lakemq.traces.batches import BatchSpans
from lakemq.traces.spans import Spans
from tests.client.consuming import wait_until
from tests.jobs.conftest import produce_to
from tests.jobs.empty_lake import put_tables
from tests.jobs.lake_checks import (
    WAIT_S_MAX,
    broker_of,
    check_once_in_each_table,
    rows_of,
    wait_until_compacted,
    write_file,
)
from tests.jobs.streams import LakeRun
from tests.traces.kept import Kept


class Scene:
    """A gateway of its own, a lake, and all that was produced."""

    def __init__(self, spark: SparkSession, gateway: GatewayProcess, lake: Path) -> None:
        self._spark = spark
        self.gateway, self.lake = gateway, lake
        self.settings = Settings(lake=Lake(dir=lake, trigger_ms=0))
        self.produced: set[tuple[Any, ...]] = set()
        self.holds = False
        self.exporter = Kept()
        self.spans = BatchSpans(Spans(self.exporter, 10_000), SystemClock().now_ms)
        self.batches_s: list[float] = []
        """How long each batch took."""

    def produce(self, count: int, topic: str = "a") -> None:
        keys = [uuid.uuid4().hex for _ in range(count)]
        messages = [{"body": key, "keys": [key], "tag": "T"} for key in keys]
        for key, answer in zip(keys, produce_to(self.gateway.url, topic, messages), strict=True):
            place = (answer["queue_id"], answer["queue_offset"], answer["position"])
            self.produced.add(("broker-a", topic, *place, key))

    def hold_some(self) -> None:
        """The lake holds messages, and all that was produced: as tests before have left it, if there were any."""
        if not self.holds:
            self.produce(40)
            self.compact()

    def compact(self) -> None:
        """Runs the query until the lake holds all."""
        driver, observe = Driver(self._spark, self.settings.lake), self.batches_s.append
        run = LakeRun(
            lambda: LakeQuery(
                self._spark, self.settings, self.gateway.url, driver=driver, observe_batch=observe, spans=self.spans
            )
        )
        try:
            wait_until_compacted(self.gateway.url, run.is_alive)
        finally:
            run.stop()
        self.holds = True

    def check(self) -> None:
        check_once_in_each_table(self.lake, self.produced)


@pytest.fixture(scope="module")
def scene(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("lake_query")
    with start_gateway(folder / "log", routing__grace_ms=-1) as gateway:
        yield Scene(spark, gateway, folder / "lake")


def test_every_message_is_once_in_each_table(scene: Scene) -> None:
    scene.produce(50, "a")
    scene.produce(30, "%RETRY%g".replace("%", "-"))
    scene.compact()
    scene.produce(20, "a")
    scene.compact()
    scene.check()
    assert scene.batches_s
    assert min(scene.batches_s) > 0
    wait_until(lambda: sum(int(span.attributes["lakemq.rows"]) for span in scene.exporter.spans) >= 100)
    assert {(span.name, span.error, span.parent) for span in scene.exporter.spans} == {("batch lake", None, None)}
    broker = broker_of(scene.gateway.url)
    assert broker["compacted_position"] == broker["max_position"]
    (row,) = (
        row
        for row in rows_of(scene.lake, "consume_queue", ["topic", "position", "size", "tag_hash"])
        if row[1] == min(message[4] for message in scene.produced)
    )
    assert row[2:] == (32, crc32(b"T"))


def test_a_query_whose_lake_another_driver_takes_commits_nothing_more(scene: Scene, spark: SparkSession) -> None:
    paths = [table.path(scene.lake) for table in TABLES]
    run = LakeRun(
        lambda: LakeQuery(spark, scene.settings, scene.gateway.url, driver=Driver(spark, scene.settings.lake))
    )
    try:
        scene.produce(1)  # a batch: the query is under way then, and is not begun anew
        wait_until_compacted(scene.gateway.url, run.is_alive)
        successor = Driver(spark, scene.settings.lake.model_copy(update={"shared": True}))
        successor.take()
        held = [read_progress(path).held for path in paths]
        scene.produce(5)
        give_up = time.monotonic() + WAIT_S_MAX
        while run.is_alive():
            assert time.monotonic() < give_up, "it goes on as if nothing had been"
            time.sleep(0.1)
        assert isinstance(run.query.failure(), LakeTaken)
        assert [read_progress(path).held for path in paths] == held
        numbers = {DeltaTable(str(path)).metadata().configuration[PROPERTY] for path in paths}
        assert numbers == {str(successor.number)}
    finally:
        run.stop()
    scene.compact()
    scene.check()


def test_any_reader_of_deltas_first_protocol_reads_the_tables(scene: Scene) -> None:
    scene.hold_some()
    for table in TABLES:
        protocol = DeltaTable(str(scene.lake / table.name)).protocol()
        assert protocol.min_reader_version == 1
        assert protocol.reader_features is None


def test_a_table_that_is_behind_or_missing_is_filled_again_and_none_doubles(scene: Scene) -> None:
    scene.hold_some()
    copy = scene.lake.parent / "copy"
    shutil.copytree(scene.lake / "consume_queue", copy)
    scene.produce(25)
    scene.compact()
    shutil.rmtree(scene.lake / "consume_queue")
    copy.rename(scene.lake / "consume_queue")
    shutil.rmtree(scene.lake / "message_index")
    scene.produce(10)
    scene.compact()
    scene.check()


def test_without_its_checkpoint_the_query_goes_on_from_the_tables(scene: Scene) -> None:
    scene.hold_some()
    assert (scene.lake / CHECKPOINTS).is_dir()
    shutil.rmtree(scene.lake / CHECKPOINTS)
    scene.produce(10)
    scene.compact()
    scene.check()


def test_a_table_of_an_earlier_version_gets_the_columns_that_it_lacks(spark: SparkSession, tmp_path: Path) -> None:
    earlier = dataclasses.replace(MESSAGES, columns=dict(list(MESSAGES.columns.items())[:-4]))
    earlier.create(spark, tmp_path)
    spark.sql(f"INSERT INTO delta.`{MESSAGES.path(tmp_path)}` (broker, position) VALUES ('b', 0)")
    MESSAGES.create(spark, tmp_path)
    assert DeltaTable(str(tmp_path / "messages")).to_pyarrow_dataset().schema.names == list(MESSAGES.columns)
    assert rows_of(tmp_path, "messages", ["position", "cause", "group"]) == [(0, None, None)]


def test_a_lake_of_another_log_is_refused(scene: Scene, spark: SparkSession, tmp_path: Path) -> None:
    """Its beginning was never compacted, once it had passed the old log's position."""
    scene.hold_some()
    with start_gateway(tmp_path / "other") as other:
        end = broker_of(scene.gateway.url)["max_position"]
        while broker_of(other.url)["max_position"] <= end:
            produce_to(other.url, "a", [{"body": "of another log"}] * 100)
        query = LakeQuery(spark, scene.settings, other.url, driver=Driver(spark, scene.settings.lake))
        with pytest.raises(LogReplaced, match="lakemq lake adopt"):
            query.start()
        query.stop()


def test_an_adopted_lake_goes_on_with_the_new_log_and_keeps_the_old_one_apart(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    put_tables(spark, lake)
    with start_gateway(tmp_path / "old", lake__dir=lake) as gateway:
        old = Scene(spark, gateway, lake)
        old.produce(8)
        old.compact()
        keep_table(spark, lake)
        log_id = broker_of(gateway.url)["log_id"]
        append_holes(lake, "broker-a", [Hole(3, 4)], ERASED)
    with start_gateway(tmp_path / "new", lake__dir=lake) as gateway:
        scene = Scene(spark, gateway, lake)
        scene.produce(30)
        work = Work(spark, scene.settings, gateway.url, driver=Driver(spark, scene.settings.lake))
        name = f"broker-a~{log_id[:8]}"
        assert set(adopt(work).detail["renamed"][name].values()) == {log_id}
        assert adopt(work).detail["renamed"] == {}
        assert (read_holes(lake, "broker-a"), read_holes(lake, name)) == ([], [Hole(3, 4)])
        scene.produce(5)
        scene.compact()
        scene.produced |= {(name, *message[1:]) for message in old.produced}
        scene.check()
        keep_table(spark, lake)
        expected = sorted((message[0], message[4]) for message in scene.produced)
        assert rows_of(lake, table_name("a"), ["_broker", "_position"]) == expected
        end = broker_of(gateway.url)["max_position"]
        assert CertainLake(lake, "broker-a").look(log_id=broker_of(gateway.url)["log_id"]) == (end, None)
        assert CertainLake(lake, "broker-a").look(log_id=log_id).position == 0


def keep_table(spark: SparkSession, lake: Path) -> None:
    """Brings the own table of topic `a` to where `messages` is."""
    wanted = {"a": (SchemaVersion(1, "json", '{"type":"object","properties":{"id":{"type":"integer"}}}', 0),)}
    progress = read_progress(MESSAGES.path(lake))
    driver = Driver(spark, Lake(dir=lake))
    kept = TopicTablesKept(spark, lake, driver, lambda: wanted, lambda: progress, lambda: None, lambda table: None)
    while kept.round():
        pass


def one_row(table: Path) -> list[str]:
    row = {"topic": "a", "key": "k", "broker": "broker-a", "position": 0, "store_time": None}
    return write_file(table, pa.Table.from_pylist([row], schema=MESSAGE_INDEX.schema))


def test_what_is_of_another_log_is_not_committed(spark: SparkSession, tmp_path: Path) -> None:
    """The gateway's log was replaced, and the lake adopted it, while a batch was under way."""
    put_tables(spark, tmp_path)
    path = MESSAGE_INDEX.path(tmp_path)
    driver = Driver(spark, Lake(dir=path.parent))
    first, second = (DeltaWriter(spark, path, driver, {"broker-a": log_id}) for log_id in ("one", "two"))
    first.held(["broker-a"])
    first.append(one_row(path), {"broker-a": 1}, 0)
    second.held(["broker-a"])
    with pytest.raises(LogReplaced, match="is of two"):
        second.append(one_row(path), {"broker-a": 2}, 0)
    append_identifiers(path, replaced("broker-a", LogMark(1, "one"), "two"))
    with pytest.raises(LakeOutOfStep, match="at the same time"):
        first.append(one_row(path), {"broker-a": 2}, 0)
    assert rows_of(tmp_path, "message_index", ["position"]) == [(0,)]


def test_a_batch_that_was_planned_of_another_log_reads_and_commits_nothing(scene: Scene, spark: SparkSession) -> None:
    query = LakeQuery(spark, scene.settings, scene.gateway.url, driver=Driver(spark, scene.settings.lake))
    query.start()
    try:
        end = StreamOffset({"broker-a": 10**6}, 0, {}, {"broker-a": "another"})
        with pytest.raises(LogReplaced, match="another"):
            query._write_to(end, 0, scene.lake)  # pyright: ignore[reportPrivateUsage]
    finally:
        query.stop()


def test_a_second_writer_is_noticed_and_writes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    put_tables(spark, tmp_path)
    path = MESSAGE_INDEX.path(tmp_path)
    writers = [DeltaWriter(spark, path, Driver(spark, Lake(dir=path.parent))) for _ in range(2)]
    assert [writer.held(["broker-a"]) for writer in writers] == [{"broker-a": None}] * 2
    writers[0].append(one_row(path), {"broker-a": 1}, 0)
    with pytest.raises(LakeOutOfStep, match="at the same time"):
        writers[1].append(one_row(path), {"broker-a": 1}, 0)
    assert len(rows_of(tmp_path, "message_index", ["position"])) == 1
    assert writers[1].held(["broker-a"]) == {"broker-a": 1}
