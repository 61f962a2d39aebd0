"""What each table takes of the log: made column by column here, held against the same in Spark's SQL.

LAKEMQ_TEST_SEED repeats a failure.
"""

from __future__ import annotations

import json
import os
import random
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakemq.jobs.lake import one_read
from lakemq.jobs.source import plan
from lakemq.jobs.source.columns import COLUMNS, arrow_schema_of
from lakemq.jobs.tables.new_file import NewFile
from lakemq.jobs.tables.table import LakeTable
from lakemq.jobs.tables.tables import CONSUME_QUEUE, MESSAGES, TABLES
from lakemq.model.ids import NONCE_DIGITS
from lakemq.model.names import CHECK_MAX_TOPIC, DECISION_TOPIC, HALF_TOPIC, OP_TOPIC, SCHEDULE_TOPIC
from lakemq.storage.lake.intact import fault_of
from lakemq.testing import start_gateway
from tests.jobs.empty_lake import put_tables
from tests.jobs.lake.test_lake_query import Scene

SEED = int(os.environ.get("LAKEMQ_TEST_SEED", str(uuid.uuid4().int % 2**32)))
NAMES = [*COLUMNS, "size"]
SCHEMA = arrow_schema_of(NAMES)
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
TOPICS = (SCHEDULE_TOPIC, HALF_TOPIC, OP_TOPIC, CHECK_MAX_TOPIC, DECISION_TOPIC, "%RETRY%g", "RMQ_SYS_OTHER", "a", "b")


def log_rows(seed: int, count: int) -> list[dict[str, Any]]:
    """Rows as no log has them: each column says what it likes."""
    chance = random.Random(seed)
    texts: dict[str, list[Any]] = {
        "tag": [None, "", "drop", "recall", "commit", "rollback", "unknown", "é" * 40],
        "transaction_id": [None, "b.1", "b.1-" + "0" * NONCE_DIGITS, "b.1-" + "g" * NONCE_DIGITS],
        "retry_topic": [None, "a"],
        "group": [None, "g"],
        "real_topic": [None, "a"],
        "keys": [None, [], ["k"], ["k", "l"], ["k", "k"], ["l", "k", "l", ""]],
        "properties": [None, [], [("p", "q"), ("r", "s")]],
        "cause": [None, 7],
        "deliver_at": [None, BEGIN + timedelta(milliseconds=5)],
        "check_times": [None, 2],
    }
    rows: list[dict[str, Any]] = []
    for position in range(count):
        row = {name: chance.choice(values) for name, values in texts.items()}
        time = BEGIN + timedelta(milliseconds=chance.randrange(10**8))
        row |= {"broker": chance.choice("xy"), "position": position, "topic": chance.choice(TOPICS), "store_time": time}
        row |= {"message_id": f"b.{position}", "queue_id": 1, "queue_offset": position, "body": b"body", "size": 4}
        rows.append(row | {"store_date": time.date(), "born_time": time, "real_queue_id": 3, "reconsume_times": 0})
    return rows


def sorted_rows(table: pa.Table | pa.RecordBatch) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_rows_without_spark_are_those_of_sparks_sql(spark: SparkSession, table: LakeTable) -> None:
    log = pa.RecordBatch.from_pylist(log_rows(SEED, 2_000), schema=SCHEMA)
    expected = table.rows(spark.createDataFrame(pa.Table.from_batches([log])).select(*table.log_columns)).toArrow()
    found = table.of_log(log)
    assert found.num_rows > 100
    assert found.select(expected.schema.names).cast(expected.schema).schema == expected.schema
    assert sorted_rows(found.select(expected.schema.names)) == sorted_rows(expected), f"LAKEMQ_TEST_SEED={SEED}"
    assert table.of_log(log.slice(0, 0)).num_rows == 0
    assert table.of_log(log.slice(7, 5)).num_rows <= 20


def test_a_file_says_of_itself_what_deltas_own_writer_says(spark: SparkSession, tmp_path: Path) -> None:
    """Readers pass over files by that: a bound that is too narrow would lose rows."""
    log = pa.RecordBatch.from_pylist(log_rows(SEED, 50), schema=SCHEMA)
    rows = MESSAGES.of_log(log)
    own = rows.set_column(2, "topic", pa.array(["\U0001f600" * 31 + "\U0010ffff" * 3 + "z"] * 25 + ["é" * 40] * 25))
    put_tables(spark, tmp_path / "spark")
    path = MESSAGES.path(tmp_path / "spark")
    spark.createDataFrame(pa.Table.from_batches([own])).coalesce(1).write.format("delta").mode("append").save(str(path))
    (entry,) = (path / "_delta_log").glob("*1.json")
    (theirs,) = (json.loads(line)["add"] for line in entry.read_text().splitlines() if "add" in line)
    with NewFile(tmp_path, MESSAGES.schema, MESSAGES.statistics) as file:
        file.write(own)
        ours = json.loads(file.close())["add"]
    found, expected = json.loads(ours["stats"]), json.loads(theirs["stats"])
    assert found["maxValues"].pop("topic") >= "\U0001f600" * 31 + "\U0010ffff" * 3 + "z"
    assert expected["maxValues"].pop("topic") > "\U0001f600" * 31
    assert found == {name: expected[name] for name in found}
    read = spark.read.parquet(str(tmp_path / ours["path"])).toArrow()
    assert sorted_rows(read.select(own.schema.names)) == sorted_rows(own)


def test_a_file_tells_of_a_byte_that_is_lost(tmp_path: Path) -> None:
    rows = CONSUME_QUEUE.of_log(pa.RecordBatch.from_pylist(log_rows(SEED, 500), schema=SCHEMA))
    with NewFile(tmp_path, CONSUME_QUEUE.schema, CONSUME_QUEUE.statistics) as file:
        file.write(rows)
        path = tmp_path / json.loads(file.close())["add"]["path"]
    assert fault_of(path) is None
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 1
    path.write_bytes(content)
    assert fault_of(path) is not None


def test_a_large_range_is_written_by_tasks_each_a_file(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (one_read, plan):
        monkeypatch.setattr(module, "MESSAGES_PER_PARTITION_MIN", 20)
    with start_gateway(tmp_path / "log", routing__grace_ms=-1) as gateway:
        put_tables(spark, tmp_path / "lake")
        scene = Scene(spark, gateway, tmp_path / "lake")
        scene.produce(60)
        scene.compact()
        scene.check()
        assert len(DeltaTable(str(tmp_path / "lake" / "messages")).file_uris()) == 2
