"""The job `stats`: what each table and each topic amounts to, as rows of the table `lake_stats`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users call it)

from lakemq.jobs.maintenance.work import Outcome, Work
from lakemq.jobs.tables.schemas import SCHEMAS, STATS
from lakemq.jobs.tables.table_files import look_at
from lakemq.jobs.tables.tables import CONSUME_QUEUE
from lakemq.objects.path import delta_options
from lakemq.objects.table_place import delta_place
from lakemq.storage.disk.clock import SystemClock
from lakemq.storage.lake.delta_log import is_made


def stats(work: Work) -> Outcome:
    """Appends a row for each table and each topic."""
    now = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    tables = _of_tables(work)
    work.check()
    topics = _of_topics(work) if is_made(CONSUME_QUEUE.path(work.lake)) else []
    rows = [row | {"time": now} for row in [*tables, *topics]]
    append_stats(work.lake, rows)
    return Outcome({"tables": {row["name"]: row["files"] for row in tables}, "topics": len(topics)})


def append_stats(lake: Path, rows: list[dict[str, Any]]) -> None:
    properties = {"delta.logRetentionDuration": "interval 2 days"}
    write_deltalake(
        delta_place(lake / STATS),
        pa.Table.from_pylist(rows, SCHEMAS[STATS]),
        mode="append",
        configuration=properties,
        storage_options=delta_options(lake),
    )


def _of_tables(work: Work) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for table in work.tables():
        found = look_at(table.path(work.lake), work.options.small_file_bytes, table.partition_by)
        rows.append({"kind": "table", "name": table.name} | found._asdict())
    for each in work.topic_tables():
        found = look_at(each.path, work.options.small_file_bytes)
        rows.append({"kind": "table", "name": each.path.name} | found._asdict())
    return rows


def _of_topics(work: Work) -> list[dict[str, Any]]:
    rows = work.rows(CONSUME_QUEUE).groupBy("topic")
    found = rows.agg(
        F.count("*").alias("rows"),
        F.sum("size").alias("bytes"),
        F.min("store_time").alias("oldest"),
        F.max("store_time").alias("newest"),
    ).toArrow()
    return [row | {"kind": "topic", "name": row.pop("topic")} for row in found.to_pylist()]
