"""A log that was full and dropped what the lake lacked: the lake query and streams go on beyond, and say so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakemq.jobs.lake.first_begin import check_first_begin
from lakemq.jobs.lake.query import LakeQuery
from lakemq.jobs.log_client import LogClient
from lakemq.jobs.sql.live import LiveViews
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.holes import Hole, holes_of_log, read_holes
from lakemq.model.errors import LogReplaced
from lakemq.settings import Lake, Settings
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.cold.lakes import DROPS
from tests.gateway.http_client import connect, produce, put_topic
from tests.gateway.routing.asking import wait_until
from tests.jobs.empty_lake import put_tables
from tests.jobs.lake_checks import broker_of, rows_of, wait_until_compacted
from tests.jobs.streams import LakeRun


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[GatewayProcess]:
    with start_gateway(tmp_path / "log", lake__dir=tmp_path / "lake", **DROPS) as gateway:
        yield gateway


def compact(spark: SparkSession, settings: Settings, gateway: GatewayProcess, views: LiveViews) -> None:
    """Let the lake query come up to the log's end."""
    run = LakeRun(lambda: LakeQuery(spark, settings, gateway.url, views, driver=Driver(spark, settings.lake)))
    try:
        wait_until_compacted(gateway.url, run.is_alive)
    finally:
        run.stop()


def has_room(log: Path) -> bool:
    """Whether the log is so small that it drops nothing more (`DROPS`)."""
    try:
        size = sum(path.stat().st_size for path in log.rglob("*.log"))
    except FileNotFoundError:
        return False  # it was dropped just now
    return size <= 3 * 1024 * 1024


def fill(http: httpx.Client, url: str, beyond: int) -> None:
    while broker_of(url)["min_position"] <= beyond:
        produce(http, "filling", "x" * 300_000)


def test_the_lake_goes_on_beyond_what_was_dropped_and_writes_the_hole_down(
    spark: SparkSession, gateway: GatewayProcess, tmp_path: Path
) -> None:
    """It was `lake_out_of_step` at every start, and the live views could not be read."""
    put_tables(spark, tmp_path / "lake")
    settings = Settings(lake=Lake(dir=tmp_path / "lake", trigger_ms=0))
    views = LiveViews(spark, settings.lake.dir, lambda: gateway.url)
    with connect(gateway) as http:
        put_topic(http, "t")
        produce(http, "t", "in the lake", ack="sync")
        compact(spark, settings, gateway, views)
        held = broker_of(gateway.url)["compacted_position"]
        produce(http, "t", "dropped")
        fill(http, gateway.url, broker_of(gateway.url)["max_position"])
        produce(http, "t", "after", ack="sync")
        wait_until(lambda: has_room(tmp_path / "log"))  # what is looked at below stays
        assert broker_of(gateway.url)["lake"]["dropped"][0][0] == held
        views.register()
        wanted = ["after", "in the lake"]
        live = "SELECT CAST(body AS STRING) AS body FROM live.messages WHERE topic = 't' ORDER BY 1"
        assert [row.body for row in spark.sql(live).collect()] == wanted
        begins = broker_of(gateway.url)["min_position"]
        compact(spark, settings, gateway, views)
        rows = rows_of(settings.lake.dir, "messages", ["topic", "body", "position"])
        assert sorted(body.decode() for topic, body, _ in rows if topic == "t") == wanted
        assert [position for _, _, position in rows if held <= position < begins] == []
        assert read_holes(settings.lake.dir, "broker-a") == [Hole(held, begins - 1)]
        for table in ("consume_queue", "messages"):
            assert rows_of(settings.lake.dir, table, ["position"])[-1][0] >= begins
        check_streams(spark, gateway, held, begins)
        check_that_another_log_is_not_looked_through(gateway, begins)


def test_a_new_lake_begins_where_a_log_does_that_dropped_all_before(gateway: GatewayProcess, tmp_path: Path) -> None:
    with connect(gateway) as http, closing(LogClient(gateway.url)) as client:
        put_topic(http, "t")
        fill(http, gateway.url, 0)
        assert broker_of(gateway.url)["lake"]["dropped"][0][0] == 0
        check_first_begin(tmp_path / "lake", {"broker-a": client}, {"broker-a": client.end()}, may_lack_older=False)


def check_streams(spark: SparkSession, gateway: GatewayProcess, held: int, begins: int) -> None:
    """A stream whose place was dropped fails, unless it may pass over that."""
    at = f'{{"positions": {{"broker-a": {held}}}}}'
    reader = spark.read.format("lakemq").options(broker=gateway.url, subscribe="t", startingOffsets=at)
    with pytest.raises(PySparkException, match="failOnDataLoss"):
        reader.load().collect()
    rows = reader.option("failOnDataLoss", "false").load().collect()
    assert [(bytes(row.body).decode(), row.position >= begins) for row in rows] == [("after", True)]
    whole = spark.read.format("lakemq").options(broker=gateway.url, startingOffsets=at, failOnDataLoss="false").load()
    assert [bytes(row.body).decode() for row in whole.where("topic = 't'").collect()] == ["after"]


def check_that_another_log_is_not_looked_through(gateway: GatewayProcess, begins: int) -> None:
    """`verify` read whatever log the broker had by then."""
    client = LogClient(gateway.url)
    try:
        assert holes_of_log(client, begins, begins + 1, client.end().log_id) == []
        with pytest.raises(LogReplaced):
            holes_of_log(client, begins, begins + 1, "another")
    finally:
        client.close()
