"""`format("lakemq")` as a sink, in a real session against a real gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (everybody's name for them)

from lakemq.testing import GatewayProcess
from tests.gateway.http_client import connect, pull_all
from tests.jobs.conftest import Produce
from tests.jobs.streams import begun

MANY = 2_000


@pytest.fixture
def http(gateway: GatewayProcess) -> Iterator[httpx.Client]:
    with connect(gateway) as client:
        yield client


def numbers(http: httpx.Client, topic: str) -> list[int]:
    return sorted(int(message["body"]) for message in pull_all(http, topic))


def test_a_data_frame_becomes_messages_with_all_their_columns(
    spark: SparkSession, gateway: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    frame = spark.range(MANY).selectExpr(
        "CAST(id AS STRING) AS body",
        "'T' AS tag",
        "array(concat('k', id)) AS keys",
        "map('number', CAST(id AS STRING)) AS properties",
        "concat('o', id % 7) AS ordering_key",
        "timestamp_millis(1000 + id) AS born_time",
        "timestamp_millis(1000) AS deliver_at",
    )
    frame.write.format("lakemq").mode("append").option("broker", gateway.url).option("topic", topic).save()
    messages = pull_all(http, topic)
    assert sorted(int(message["body"]) for message in messages) == list(range(MANY))
    one = messages[0]
    number = int(one["body"])
    expected: dict[str, Any] = {"tag": "T", "keys": [f"k{number}"], "properties": {"number": str(number)}}
    expected |= {"ordering_key": f"o{number % 7}", "born_time_ms": 1000 + number}
    assert one == one | expected
    assert len({message["queue_id"] for message in messages}) > 1


def test_the_same_sink_and_batch_is_written_once(
    spark: SparkSession, gateway: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    frame = spark.range(10).selectExpr("CAST(id AS STRING) AS body")
    for partitions in (1, 3):
        writer = frame.repartition(partitions).write.format("lakemq").mode("append")
        writer.options(broker=gateway.url, topic=topic, sink=topic, batch="4", progress="ten").save()
    assert numbers(http, topic) == list(range(10))
    assert http.get(f"/v1/sinks/{topic}").json()["progress"] == "ten"


def test_a_write_that_fails_in_one_task_stores_nothing_and_stages_nothing(
    spark: SparkSession, gateway: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    frame = spark.range(100, numPartitions=2).selectExpr("IF(id = 99, raise_error('no'), CAST(id AS STRING)) AS body")
    before = http.get("/v1/sinks").json()["staged_parts"]
    with pytest.raises(PySparkException):
        frame.write.format("lakemq").mode("append").options(broker=gateway.url, topic=topic).save()
    assert pull_all(http, topic) == []
    assert http.get("/v1/sinks").json()["staged_parts"] == before


@pytest.mark.parametrize(("mode", "body"), [("overwrite", "body"), ("append", "colour")])
def test_what_can_not_be_written_is_said_before_anything_is(
    spark: SparkSession, gateway: GatewayProcess, topic: str, mode: str, body: str
) -> None:
    frame = spark.range(1).selectExpr(f"CAST(id AS STRING) AS {body}")
    with pytest.raises(PySparkException, match=r"overwritten|colour|body"):
        frame.write.format("lakemq").mode(mode).options(broker=gateway.url, topic=topic).save()


def copied(spark: SparkSession, url: str, source: str) -> DataFrame:
    """What a topic holds, twice as large."""
    stream = spark.readStream.format("lakemq").options(broker=url, subscribe=source, startingOffsets="earliest").load()
    return stream.select((F.col("body").cast("string").cast("int") * 2).cast("string").alias("body"))


def run(frame: DataFrame, url: str, topic: str, checkpoint: Path) -> None:
    """All that is there, to the topic."""
    writer = frame.writeStream.format("lakemq").options(broker=url, topic=topic, checkpointLocation=str(checkpoint))
    begun(lambda: writer.trigger(availableNow=True).start().awaitTermination())


def test_a_streams_batch_that_is_replayed_is_stored_once_in_whatever_parts(
    spark: SparkSession, gateway: GatewayProcess, http: httpx.Client, topic: str, produce: Produce, tmp_path: Path
) -> None:
    source, checkpoint = f"{topic}-in", tmp_path / "checkpoint"
    produce(source, [{"body": str(number)} for number in range(50)])
    run(copied(spark, gateway.url, source), gateway.url, topic, checkpoint)
    assert numbers(http, topic) == list(range(0, 100, 2))
    query = json.loads((checkpoint / "metadata").read_text())["id"]
    assert http.get(f"/v1/sinks/query-{query}").json()["batch"] == 0
    # As if the driver had died after the commit at the broker, and before Spark noted it.
    for commit in (checkpoint / "commits").iterdir():
        commit.unlink()
    produce(source, [{"body": "50"}])
    run(copied(spark, gateway.url, source).repartition(3), gateway.url, topic, checkpoint)
    assert numbers(http, topic) == list(range(0, 102, 2))
