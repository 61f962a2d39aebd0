"""The gateway reads the tables as Spark writes them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakemq.jobs.errors import LakeOutOfStep
from lakemq.jobs.lake.first_begin import check_first_begin
from lakemq.jobs.lake.merging import limits_of
from lakemq.jobs.lake.query import LakeQuery
from lakemq.jobs.log_client import LogClient
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.merger import TableMerger
from lakemq.jobs.tables.table import LakeTable
from lakemq.jobs.tables.tables import CONSUME_QUEUE, MESSAGE_INDEX, MESSAGES
from lakemq.settings import Lake, Settings
from lakemq.storage.lake.delta_log import is_made
from lakemq.storage.lake.progress import read_progress
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.cold.lakes import wait_until_all_left
from tests.gateway.http_client import connect, produce, pull, pull_all, put_topic
from tests.gateway.routing.asking import wait_until
from tests.jobs.empty_lake import put_tables
from tests.jobs.lake_checks import broker_of, rows_of, wait_until_compacted
from tests.jobs.streams import LakeRun

TOPICS = ("cold-a", "cold-b")
TABLES = (MESSAGES, CONSUME_QUEUE, MESSAGE_INDEX)
SENT = 400


def _fill(http: httpx.Client) -> None:
    for topic in TOPICS:
        put_topic(http, topic, 2)
    for number in range(0, SENT, 20):
        for topic in TOPICS:
            produce(http, topic, *[_message(each) for each in range(number, number + 20)])
    for _ in range(4):  # one after the other: a segment ends with the request that fills it
        produce(http, "cold-large", "x" * 300_000)


def _message(number: int) -> dict[str, Any]:
    message: dict[str, Any] = {"body": f"body {number} " + "y" * 1000}
    if number % 2:
        message |= {"tag": "T", "keys": [f"k{number % 5}"], "properties": {"n": str(number)}, "ordering_key": "o"}
    return message


def test_what_spark_wrote_and_optimized_is_answered_as_the_log_answered_it(spark: SparkSession, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    options: dict[str, Any] = {"storage__segment_bytes": 2**20, "storage__retention_ms": 0}
    options |= {"storage__compacted_grace_ms": 0}
    options |= {"storage__compression": "none", "lake__dir": lake}
    with start_gateway(tmp_path / "log", **options) as gateway, connect(gateway) as http:
        _fill(http)
        expected = {topic: pull_all(http, topic) for topic in TOPICS}
        settings = Settings(lake=Lake(dir=lake, trigger_ms=0, messages_per_trigger_max=300))
        run = LakeRun(lambda: LakeQuery(spark, settings, gateway.url, driver=Driver(spark, settings.lake)))
        try:
            wait_until_compacted(gateway.url, run.is_alive)
        finally:
            run.stop()
        wait_until_all_left(http, tmp_path / "log")
        assert all(queue["log_min_offset"] > 0 for queue in http.get("/v1/topics/cold-b").json()["queues"])
        assert {topic: pull_all(http, topic) for topic in TOPICS} == expected
        for rewrite in (_merge, _optimize):  # what the query's merging leaves; and what somebody makes of that
            for table in TABLES:
                rewrite(spark, lake, table)
            _delete_older(lake)
            assert {topic: pull_all(http, topic) for topic in TOPICS} == expected
            _check_look_ups(http, expected["cold-a"])
            _check_files(lake)
        _check_new_lakes(spark, gateway, tmp_path / "not-mounted")


def _check_new_lakes(spark: SparkSession, gateway: GatewayProcess, lake: Path) -> None:
    """The jobs made a new lake in a folder that was not mounted, and the log let go of what only that one had."""
    first = broker_of(gateway.url)["min_position"]
    put_tables(spark, lake)  # as an earlier version has made them
    empty = lake.with_name("empty")
    for folder in (lake, empty):
        settings = Settings(lake=Lake(dir=folder, trigger_ms=0))
        query = LakeQuery(spark, settings, gateway.url, driver=Driver(spark, settings.lake))
        with pytest.raises(
            LakeOutOfStep, match=f"nothing of broker-a, whose log begins at position {first}: .*mounted"
        ):
            query.start()
        query.stop()
    assert not any(is_made(table.path(empty)) for table in TABLES)
    settings = Settings(lake=Lake(dir=lake, trigger_ms=0, may_lack_older=True))
    run = LakeRun(lambda: LakeQuery(spark, settings, gateway.url, driver=Driver(spark, settings.lake)))
    try:
        wait_until(lambda: read_progress(MESSAGES.path(lake)).held.get("broker-a", 0) > first)
    finally:
        run.stop()
    assert min(position for (position,) in rows_of(lake, "messages", ["position"])) >= first
    with closing(LogClient(gateway.url)) as client:
        ends = {"broker-a": client.end()}
        check_first_begin(lake, {"broker-a": client}, ends, may_lack_older=False)  # it is known from then on


def _merge(spark: SparkSession, lake: Path, table: LakeTable) -> None:
    merger = TableMerger(
        spark, table.layout(lake), lake, limits_of(Lake()), lambda: False, Driver(spark, Lake(dir=lake))
    )
    assert merger.unfinished() > 1
    merger.finish()
    assert merger.unfinished() == 1


def _optimize(spark: SparkSession, lake: Path, table: LakeTable) -> None:
    spark.sql(f"OPTIMIZE delta.`{table.path(lake)}`").collect()


def _delete_older(lake: Path) -> None:
    """Files that the tables don't need any more, as VACUUM would: who still wanted them would fail."""
    for table in TABLES:
        needed = {Path(each).name for each in DeltaTable(str(table.path(lake))).file_uris()}
        for file in table.path(lake).rglob("part-*.parquet"):
            if file.name not in needed:
                file.unlink()


def _check_look_ups(http: httpx.Client, messages: list[dict[str, Any]]) -> None:
    message = messages[33]
    assert http.get(f"/v1/messages/{message['message_id']}").json() == message
    having = [each for each in reversed(messages) if "k3" in each["keys"]]
    found = http.get("/v1/messages?topic=cold-a&key=k3&max=1000").json()
    assert found == {"messages": having, "complete": True}
    path = f"/v1/topics/cold-a/queues/{message['queue_id']}/offset"
    offset = http.get(path, params={"timestamp_ms": message["store_time_ms"]}).json()["offset"]
    first = pull(http, "cold-a", message["queue_id"], offset, max=1)["messages"][0]
    assert first["store_time_ms"] == message["store_time_ms"]


def _check_files(lake: Path) -> None:
    """Times as numbers that have statistics, and checksums of pages: reads rely on both."""
    for path in (lake / "messages").glob("*.parquet"):
        footer = pq.read_metadata(path)
        store_time = footer.schema.names.index("store_time")
        assert footer.schema.column(store_time).physical_type == "INT64", path
        table = pq.read_table(path, columns=["topic", "store_time"], page_checksum_verification=True)
        assert table.num_rows == footer.num_rows
