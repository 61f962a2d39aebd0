"""A lake that an older lakemq left is gone on with: each message is in each table once, before and after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakemq.jobs.lake.query import LakeQuery
from lakemq.jobs.sql.live import LiveViews
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.tables import TABLES
from lakemq.settings import Lake, Settings
from lakemq.testing import start_gateway
from tests.gateway.http_client import connect, produce
from tests.jobs.lake_checks import check_once_in_each_table, rows_of, wait_until_compacted
from tests.jobs.streams import LakeRun
from tests.upgrade.corpus import NAMES, unpack

PLAIN = ("large", "work", "sunk")
"""Topics without keys, and without holes."""


@pytest.mark.parametrize("name", NAMES)
def test_a_lake_of_before_is_gone_on_with(spark: SparkSession, tmp_path: Path, name: str) -> None:
    older = unpack(name, tmp_path)
    settings = Settings(lake=Lake(dir=older.lake, trigger_ms=0))
    with start_gateway(older.log, lake__dir=older.lake) as gateway, connect(gateway) as http:
        views = LiveViews(spark, older.lake, lambda: gateway.url)
        run = LakeRun(lambda: LakeQuery(spark, settings, gateway.url, views, driver=Driver(spark, settings.lake)))
        try:
            new = produce(http, "new", {"body": "by this one", "keys": ["k"]})[0]
            wait_until_compacted(gateway.url, run.is_alive)
        finally:
            run.stop()
    # Where the machine has started again since, offsets go on beyond what may have been lost.
    place = new["queue_id"], new["queue_offset"], new["position"]
    check_once_in_each_table(older.lake, {("broker-a", "new", *place, "k")})
    _check_older_rows(older.lake, older.said)
    for table in TABLES:
        there = DeltaTable(str(table.path(older.lake))).schema().fields
        assert set(table.columns) <= {field.name for field in there}, table.name


def _check_older_rows(lake: Path, said: dict[str, Any]) -> None:
    places = ["topic", "queue_id", "queue_offset", "position"]
    for table in ("messages", "consume_queue"):
        rows = rows_of(lake, table, places)
        assert len(rows) == len(set(rows)), table
        then = [tuple(each[name] for name in places) for topic in said["topics"].values() for each in topic]
        assert set(then) <= set(rows), table
        for topic in PLAIN:
            assert sum(row[0] == topic for row in rows) == len(said["topics"][topic]), table
    keys = rows_of(lake, "message_index", ["topic", "key", "position"])
    messages = said["topics"]["orders"]
    assert {("orders", key, each["position"]) for each in messages for key in each["keys"]} <= set(keys)
