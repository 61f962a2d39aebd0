"""The search for what an erasure is about."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakemq.jobs.maintenance import search
from lakemq.jobs.maintenance.search import Search
from lakemq.jobs.maintenance.work import Work
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.tables import MESSAGES
from lakemq.model.failure import FAILURE_TEXT
from lakemq.model.names import HALF_TOPIC, NACK_TOPIC
from lakemq.settings import Lake, Settings
from tests.jobs.changed_rows import append_rows
from tests.jobs.empty_lake import put_tables


def put(lake: Path, begin: int, *rows: dict[str, Any]) -> None:
    """From that position on; a message's id is its position unless it says another."""
    filled = [
        {"broker": "a", "topic": "t", "queue_id": 0, "queue_offset": at, "position": at, "body": b"x"}
        | {"message_id": f"a.{at}", "keys": [], "properties": []}
        | row
        for at, row in enumerate(rows, begin)
    ]
    append_rows(lake / "messages", pa.Table.from_pylist(filled, MESSAGES.schema))


@pytest.mark.parametrize("listed_max", [search.IN_LIST_MAX, 0], ids=["listed", "joined"])
def test_what_came_meanwhile_leads_to_what_was_there(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed_max: int
) -> None:
    """By each kind of link; an id may hold what ends a text of SQL."""
    monkeypatch.setattr(search, "IN_LIST_MAX", listed_max)
    put_tables(spark, tmp_path)
    odd = "it's \\' OR true --"
    put(
        tmp_path,
        0,
        {"keys": ["k", "k", "other"], "message_id": odd},
        {"keys": ["kept"]},
        {"transaction_id": "tx", "topic": HALF_TOPIC},
        {"origin_message_id": odd, "topic": NACK_TOPIC},
        {"origin_message_id": odd, "topic": NACK_TOPIC, "properties": [(FAILURE_TEXT, "x")]},
    )
    work = Work(spark, Settings(lake=Lake(dir=tmp_path)), "", driver=Driver(spark, Lake(dir=tmp_path)))
    found = Search(work, "key = 'k'")
    found.look({"a": 5})
    assert found.found["position"].to_pylist() == [0, 4], "a nack goes that says why"
    came = {"origin_message_id": odd, "transaction_id": "tx"}
    put(tmp_path, 5, came, {"keys": ["k"]}, {"cause": 4}, {"cause": 4, "deliver_at": datetime(2026, 1, 2, tzinfo=UTC)})
    found.look_on({"a": 8})
    assert found.found["position"].to_pylist() == [0, 2, 4, 5], "what is produced later isn't looked for"
    put(tmp_path, 9, {"origin_message_id": "a.8"}, {})
    found.look_on({"a": 11})
    assert found.found["position"].to_pylist() == [0, 2, 4, 5, 8, 9]
