"""Files of the lake merged while the query writes them: few, and every row where it was, also when it goes wrong."""

from __future__ import annotations

import json
import os
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import httpx
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakemq.jobs.lake.merging import limits_of
from lakemq.jobs.lake.query import LakeQuery
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.merged_add import tier_of
from lakemq.jobs.tables.merger import Overtaken, TableMerger
from lakemq.jobs.tables.scheduled import SCHEDULED
from lakemq.jobs.tables.table import LakeTable
from lakemq.jobs.tables.tables import CONSUME_QUEUE, MESSAGE_INDEX, MESSAGES, TABLES
from lakemq.settings import MIB, Lake, Settings
from lakemq.storage.lake.live_files import LiveFiles
from lakemq.storage.lake.merge_files import Abandoned
from lakemq.storage.lake.proof_mark import FOLDER
from lakemq.testing import start_gateway
from tests.gateway.http_client import connect, produce
from tests.jobs.empty_lake import put_tables
from tests.jobs.lake.test_lake_query import Scene
from tests.jobs.lake_checks import check_once_in_each_table, rows_of, wait_until_compacted
from tests.jobs.streams import LakeRun

WAIT_S = 300
MERGE_FILES = 3
ROUNDS = 5
WRITTEN = (MESSAGES, CONSUME_QUEUE, MESSAGE_INDEX)


@pytest.fixture(scope="module")
def scene(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("merging")
    with start_gateway(folder / "log", lake__dir=folder / "lake") as gateway:
        put_tables(spark, folder / "lake")
        scene = Scene(spark, gateway, folder / "lake")
        scene.settings = Settings(lake=Lake(dir=folder / "lake", trigger_ms=0, merge_files=MERGE_FILES))
        yield scene


def merger_of(
    spark: SparkSession,
    lake: Path,
    table: LakeTable,
    files: int = MERGE_FILES,
    stop: Callable[[], bool] = lambda: False,
) -> TableMerger:
    return TableMerger(
        spark,
        table.layout(lake),
        lake,
        limits_of(Lake(dir=lake, merge_files=files)),
        stop,
        Driver(spark, Lake(dir=lake)),
    )


def files_of(lake: Path, table: LakeTable) -> list[str]:
    return list(LiveFiles(lake / table.name).added)


def put_small_files(scene: Scene, spark: SparkSession, count: int) -> None:
    """So many files of `messages`, unmerged."""
    put_files(scene, spark, count, lambda: scene.produce(5))


def put_files(scene: Scene, spark: SparkSession, count: int, send: Callable[[], object]) -> None:
    """A file of `messages`, unmerged, of what each call sends: all by one query, as to start one takes longest."""
    with unmerged(scene):
        run = LakeRun(
            lambda: LakeQuery(spark, scene.settings, scene.gateway.url, driver=Driver(spark, scene.settings.lake))
        )
        try:
            for _ in range(count):
                send()
                wait_until_compacted(scene.gateway.url, run.is_alive)
        finally:
            run.stop()


@contextmanager
def unmerged(scene: Scene) -> Generator[None]:
    """The query leaves its files as they are."""
    settings = scene.settings
    scene.settings = Settings(lake=Lake(dir=scene.lake, trigger_ms=0, merge_files=64))
    try:
        yield
    finally:
        scene.settings = settings


def wait_for(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.1)


def delayed(http: httpx.Client, count: int) -> None:
    produce(http, "waits", *[{"body": "x", "delay_ms": 1} for _ in range(count)])
    wait_for(lambda: not http.get("/v1/routing").json()["delay"]["waiting"], "what is due is delivered")


def test_beside_a_query_that_writes_files_stay_few_and_every_row_is_there_once(
    spark: SparkSession, scene: Scene
) -> None:
    query = LakeRun(
        lambda: LakeQuery(spark, scene.settings, scene.gateway.url, driver=Driver(spark, scene.settings.lake))
    )
    versions: list[tuple[int, set[tuple[Any, ...]]]] = []
    try:
        with connect(scene.gateway) as http:
            for _ in range(ROUNDS):
                scene.produce(7)
                delayed(http, 2)
                wait_until_compacted(scene.gateway.url, query.is_alive)
                versions.append((DeltaTable(str(scene.lake / "messages")).version(), set(scene.produced)))
        for table in (*WRITTEN, SCHEDULED):
            wait_for(lambda table=table: are_few(scene.lake, table), f"{table.name} has many files")
    finally:
        query.stop()
    scene.check()
    states = [state for (state,) in rows_of(scene.lake, "scheduled", ["state"])]
    assert states == ["delivered"] * 2 * ROUNDS
    for version, produced in versions:
        table = DeltaTable(str(scene.lake / "messages"), version=version).to_pyarrow_dataset()
        rows = table.to_table(columns=["topic", "position"]).to_pylist()
        assert sorted(row["position"] for row in rows if row["topic"] == "a") == sorted(each[4] for each in produced)
    check_entries(scene)
    by_spark = spark.read.format("delta").load(str(scene.lake / "message_index")).where("topic = 'a'").count()
    assert by_spark == len(scene.produced)


def are_few(lake: Path, table: LakeTable) -> bool:
    """Of no tier there are as many as become one. What waits (no partition) is merged by its writer."""
    added = LiveFiles(lake / table.name).added.values()
    parts = [(add.get("partitionValues") or {}).get(table.partition_by or "", "") for add in added]
    tiers = Counter((part, tier_of(add)) for part, add in zip(parts, added, strict=True) if part is not None)
    return max(tiers.values(), default=0) < MERGE_FILES


def committed_in(table: Path) -> dict[str, dict[str, Any]]:
    """What the commits added, by path: a checkpoint, which may have come meanwhile, doesn't say all of it."""
    entries = sorted((table / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for entry in entries for line in entry.read_text().splitlines()]
    return {action["add"]["path"]: action["add"] for action in actions if "add" in action}


def check_entries(scene: Scene) -> None:
    """Merged files are in order; what the log says of them is so, and that their commits change no data."""
    for table in WRITTEN:
        live = LiveFiles(scene.lake / table.name)
        merged = [add for add in live.added.values() if "lakemq.tier" in (add.get("tags") or {})]
        assert merged
        committed = committed_in(scene.lake / table.name)
        for add in merged:
            rows = pq.read_table(scene.lake / table.name / unquote(add["path"]), columns=list(table.statistics))
            stats = json.loads(add["stats"])
            positions = rows["position"].to_pylist()
            assert (stats["minValues"]["position"], stats["maxValues"]["position"]) == (min(positions), max(positions))
            assert stats["numRecords"] == rows.num_rows
            assert stats["nullCount"]["position"] == 0
            assert not committed[add["path"]]["dataChange"]
            keys = list(zip(*(rows[name].to_pylist() for name in table.order_by), strict=True))
            assert keys == sorted(keys)


def test_who_is_killed_before_the_commit_leaves_the_table_as_it_was(
    spark: SparkSession, scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_small_files(scene, spark, 4)
    merger = merger_of(spark, scene.lake, MESSAGES)
    before = files_of(scene.lake, MESSAGES)

    def killed(*_: object) -> None:
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr("lakemq.jobs.tables.merger._Delta.commit", killed)
        with pytest.raises(RuntimeError, match="killed"):
            merger.step()
    assert files_of(scene.lake, MESSAGES) == before
    named = {Path(path).name for path in before}
    assert {path.name for path in (scene.lake / "messages").glob("part-*.parquet")} - named
    scene.check()
    with pytest.raises(Abandoned):
        merger_of(spark, scene.lake, MESSAGES, stop=lambda: True).step()
    assert merger.step()
    scene.check()


def test_a_merge_that_others_overtake_is_of_no_effect(spark: SparkSession, scene: Scene) -> None:
    put_small_files(scene, spark, 4)
    gone = max(message[4] for message in scene.produced)
    statements = [f"DELETE FROM delta.`{scene.lake / 'message_index'}` WHERE position = {gone}"]

    def stop() -> bool:
        while statements:
            spark.sql(statements.pop()).collect()
        return False

    merger = merger_of(spark, scene.lake, MESSAGE_INDEX, files=2, stop=stop)
    with pytest.raises(Overtaken):
        merger.step()
    left = {message for message in scene.produced if message[4] != gone}
    while merger.step():
        pass
    keys = rows_of(scene.lake, "message_index", ["topic", "position"])
    assert [position for topic, position in keys if topic == "a"] == sorted(message[4] for message in left)
    spark.sql(f"DELETE FROM delta.`{scene.lake / 'messages'}` WHERE position = {gone}")
    spark.sql(f"DELETE FROM delta.`{scene.lake / 'consume_queue'}` WHERE position = {gone}")
    scene.produced = left
    scene.check()


@pytest.mark.parametrize("of_entries", [WRITTEN[1::2], pytest.param(WRITTEN[::2], marks=pytest.mark.long)])
def test_a_power_cut_that_tears_a_merge_brings_back_the_files_that_it_replaced(
    spark: SparkSession, scene: Scene, of_entries: tuple[LakeTable, ...]
) -> None:
    """Of some tables it tears what the log says of the merge, and of the others the file."""
    put_small_files(scene, spark, 3)
    proved = (scene.lake / FOLDER / "proved.json").read_bytes()
    before = {table.name: files_of(scene.lake, table) for table in WRITTEN}
    for table in WRITTEN:
        merger_of(spark, scene.lake, table, files=2).finish()
    (scene.lake / FOLDER / "proved.json").write_bytes(proved)
    for table in WRITTEN:
        live = LiveFiles(scene.lake / table.name)
        (added,) = set(live.added) - set(before[table.name])
        entry = scene.lake / table.name / "_delta_log" / f"{live.version:020}.json"
        torn = entry if table in of_entries else scene.lake / table.name / unquote(added)
        os.truncate(torn, torn.stat().st_size // 2)
    with unmerged(scene):
        scene.compact()
    for table in WRITTEN:
        assert set(before[table.name]) <= set(files_of(scene.lake, table))
    scene.produce(3)
    scene.compact()
    scene.check()


def test_no_file_gets_larger_than_the_setting_says(spark: SparkSession, scene: Scene) -> None:
    """Files of 0.4 MB: two become one, which is done, as a third has no room in it."""
    with connect(scene.gateway) as http:
        put_files(scene, spark, 5, lambda: produce(http, "large", b64encode(os.urandom(300_000)).decode()))
    limits = limits_of(Lake(merge_files=2, file_bytes_max=MIB))
    merger = TableMerger(
        spark, MESSAGES.layout(scene.lake), scene.lake, limits, lambda: False, Driver(spark, scene.settings.lake)
    )
    while merger.step():
        pass
    merger.finish()
    sizes = [add["size"] for add in LiveFiles(scene.lake / "messages").added.values()]
    assert max(sizes) <= MIB
    assert sum(size >= MIB // 2 for size in sizes) >= 2
    scene.check()


def test_what_is_known_of_the_files_is_the_same_from_a_checkpoint_and_entry_by_entry(
    spark: SparkSession, scene: Scene
) -> None:
    put_small_files(scene, spark, 2)
    for table in TABLES:
        followed = LiveFiles(scene.lake / table.name)
        assert set(followed.added) == {
            Path(uri).relative_to(scene.lake / table.name).as_posix() for uri in uris(scene, table)
        }
        checkpoint(spark, scene.lake / table.name)
        read = LiveFiles(scene.lake / table.name)
        assert (read.version, read.columns, set(read.added)) == (
            followed.version,
            followed.columns,
            set(followed.added),
        )
        for path, add in followed.added.items():
            of_entries, of_checkpoint = (
                {name: each for name, each in one.items() if each not in (None, {}) and name != "dataChange"}
                for one in (add, read.added[path])
            )
            assert of_checkpoint == of_entries
    check_once_in_each_table(scene.lake, scene.produced)


def uris(scene: Scene, table: LakeTable) -> list[str]:
    return [uri.removeprefix("file://") for uri in DeltaTable(str(scene.lake / table.name)).file_uris()]


def checkpoint(spark: SparkSession, path: Path) -> None:
    jvm: Any = spark._jvm  # pyright: ignore[reportPrivateUsage]
    java_session: Any = spark._jsparkSession  # pyright: ignore[reportPrivateUsage]
    log = jvm.org.apache.spark.sql.delta.DeltaLog.forTable(java_session, str(path))
    none = jvm.scala.Option.empty()
    log.checkpoint(log.update(False, none, none), none)
