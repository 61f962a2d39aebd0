"""The lake query as it runs on Databricks, on open-source Delta: the same rows by public means."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakemq.jobs import databricks
from lakemq.jobs.tables.tables import MESSAGE_INDEX, MESSAGES, TABLES
from lakemq.model.errors import LakemqError, SettingsError
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.http_client import connect, produce
from tests.gateway.routing.asking import begin, resolve
from tests.jobs.lake_checks import broker_of
from tests.jobs.streams import begun


@pytest.fixture
def schema(spark: SparkSession) -> Iterator[str]:
    name = f"lakemq_{uuid.uuid4().hex[:8]}"
    yield name
    spark.sql(f"DROP SCHEMA IF EXISTS {name} CASCADE")


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    with start_gateway(tmp_path / "log", routing__grace_ms=-1) as process:
        yield process


def compact(spark: SparkSession, gateway: GatewayProcess, schema: str, checkpoint: Path) -> None:
    start = partial(databricks.start_lake_query, spark, gateway.url, schema, str(checkpoint), trigger_s=None)
    begun(lambda: start().awaitTermination())
    assert broker_of(gateway.url)["compacted_position"] > 0


def test_each_message_is_once_in_each_table_whatever_becomes_of_the_checkpoint(
    spark: SparkSession, gateway: GatewayProcess, schema: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect(gateway) as http:
        produce(http, "a", *({"body": "x", "keys": [f"k{at}", "all"]} for at in range(20)))
        produce(http, "a", {"body": "later", "delay_ms": 300})
        resolve(http, begin(http, "a", "committed")[0], "commit")
        compact(spark, gateway, schema, tmp_path / "checkpoint")
        produce(http, "a", *({"body": "y", "keys": [f"k{at}"]} for at in range(10)))
        while http.get("/v1/routing").json()["delay"]["waiting"]:
            time.sleep(0.05)
    # A driver without a checkpoint, or one that was thought dead: what is there, it does not add again.
    log = spark.read.format("lakemq").option("broker", gateway.url)
    databricks.write_batch(spark, schema, log.option("columns", ",".join(databricks.LOG_COLUMNS)).load())
    held = {table.name: spark.table(f"{schema}.{table.name}") for table in TABLES}
    positions = [row["position"] for row in held["messages"].select("position").orderBy("position").collect()]
    assert positions == list(range(broker_of(gateway.url)["max_position"]))
    assert held["message_index"].where("topic = 'a'").count() == 50
    assert [row["state"] for row in held["scheduled"].collect()] == ["delivered"]
    assert {row["event"] for row in held["transactions"].collect()} == {"half", "commit", "committed"}
    monkeypatch.setattr(databricks, "TABLES", (MESSAGES, MESSAGE_INDEX))  # what is done to each takes seconds
    for name in databricks.MAINTENANCE:
        databricks.main([name, schema])
    spark.sql(f"DELETE FROM {schema}.message_index WHERE key = 'k3'")
    with pytest.raises(LakemqError, match="message_index differs from messages"):
        databricks.main(["verify", schema])


def test_what_is_no_command_is_an_error_that_says_which_there_are(spark: SparkSession) -> None:
    with pytest.raises(SettingsError, match="lake BROKER SCHEMA CHECKPOINT"):
        databricks.main(["optimise", "main.lakemq"])
