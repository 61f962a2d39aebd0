"""`format("lakemq")` with a token: its tasks have it, and Spark, which shows what it does in many places, shows it in
none."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakemq.client.http import HttpClient
from lakemq.model.message import Draft
from lakemq.model.token import Token, parse_token
from lakemq.testing import GatewayProcess, start_gateway
from tests.jobs.streams import begun

SHOWN_S_MAX = 120


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GatewayProcess, Token]]:
    """A gateway where all takes a token, and one that nobody finds by himself."""
    folder = tmp_path_factory.mktemp("strict")
    with start_gateway(folder, auth__required=True) as gateway:
        file = folder / "admin.token"
        file.chmod(0o644)
        yield gateway, parse_token(file.read_text("ascii").strip())


@pytest.fixture
def options(strict: tuple[GatewayProcess, Token], topic: str) -> dict[str, str]:
    """Of a reader, of a topic with one message."""
    gateway, token = strict
    with HttpClient(gateway.url, token=token.text) as client:
        client.produce(topic, [Draft(b"one")])
    return {"broker": gateway.url, "subscribe": topic, "startingOffsets": "earliest", "token": token.text}


def shown(frame: Any) -> str:
    """All that Spark says of a plan: what `explain` prints, its user interface shows and its event log has."""
    execution = frame._jdf.queryExecution()
    plans = [execution.logical(), execution.analyzed(), execution.optimizedPlan(), execution.executedPlan()]
    texts = [execution.toString(), execution.simpleString(), *(each.treeString() for each in plans)]
    return "\n".join([*texts, *(each.verboseString(1000) for each in plans), repr(frame)])


def executions(spark: SparkSession) -> list[tuple[int, str]]:
    """Those that Spark's interface shows still, of all of a session's the last ones: number, and what it says."""
    session: Any = spark
    listed = session._jsparkSession.sharedState().statusStore().executionsList()
    found = [listed.apply(number) for number in range(listed.size())]
    return [(each.executionId(), each.physicalPlanDescription() + each.details()) for each in found]


def test_a_read_has_the_token_and_spark_shows_none(
    spark: SparkSession, options: dict[str, str], strict: tuple[GatewayProcess, Token]
) -> None:
    frame: Any = spark.read.format("lakemq").options(**options).load()
    assert frame.count() == 1
    text = shown(frame)
    assert "BatchScan lakemq" in text
    assert strict[1].secret not in text


def test_a_stream_has_the_token_and_spark_shows_and_keeps_none(
    spark: SparkSession, options: dict[str, str], strict: tuple[GatewayProcess, Token], tmp_path: Path
) -> None:
    def run() -> str:
        frame = spark.readStream.format("lakemq").options(**options).load()
        writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        execution: Any = query._jsq  # pyright: ignore[reportPrivateUsage]
        assert sum(each["numInputRows"] for each in query.recentProgress) == 1
        return "\n".join([str(each) for each in query.recentProgress] + [execution.explainInternal(True)])

    text = begun(run)
    assert "MicroBatchScan" in text
    assert strict[1].secret not in text
    kept = [file.read_bytes() for file in (tmp_path / "checkpoint").rglob("*") if file.is_file()]
    assert kept
    assert not any(strict[1].secret.encode() in each for each in kept)


def test_a_write_has_the_token_and_spark_shows_none(
    spark: SparkSession, options: dict[str, str], strict: tuple[GatewayProcess, Token], topic: str
) -> None:
    before = max((number for number, _ in executions(spark)), default=-1)
    write = {"broker": options["broker"], "topic": topic, "token": options["token"]}
    frame = spark.range(3).selectExpr("CAST(id AS STRING) AS body")
    frame.write.format("lakemq").options(**write).mode("append").save()
    with HttpClient(options["broker"], token=options["token"]) as client:
        assert sum(each["max_offset"] for each in client.topic(topic)["queues"]) == 4
    give_up, text = time.monotonic() + SHOWN_S_MAX, ""
    while "AppendData" not in text:  # Spark hears of what it has done a little later
        assert time.monotonic() < give_up, text
        text = "".join(each for number, each in executions(spark) if number > before)
    assert strict[1].secret not in text
