"""The table `scheduled`, merged batch by batch into real Delta tables, against a model in memory.

LAKEMQ_TEST_SEED repeats a failure.
"""

from __future__ import annotations

import os
import random
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from lakemq.jobs.maintenance.retention import drop_ended
from lakemq.jobs.maintenance.work import Work
from lakemq.jobs.source.columns import arrow_schema_of
from lakemq.jobs.tables import scheduled_writer
from lakemq.jobs.tables.changes_file import ChangesFile
from lakemq.jobs.tables.driver import Driver
from lakemq.jobs.tables.scheduled import SCHEDULED
from lakemq.jobs.tables.scheduled_writer import ScheduledWriter
from lakemq.model.names import DECISION_TOPIC, SCHEDULE_TOPIC
from lakemq.settings import Lake, Settings
from tests.jobs.lake_checks import rows_of

SEED = int(os.environ.get("LAKEMQ_TEST_SEED", str(uuid.uuid4().int % 2**32)))
BROKER = "broker-a"
START_MS = 1_600_000_000_000
SEEN = ["position", "topic", "queue_id", "due", "kind", "state", "ended_at", "delivered_message_id"]
NAMES = list(SCHEDULED.log_columns)

Row = dict[str, Any]


def moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


class Log:
    """Rows of a log's control traffic, and what the table should hold of them."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._position = 0
        self._now_ms = START_MS
        self.rows: list[Row] = []
        self.expected: dict[int, list[Any]] = {}
        self.end = 0

    def batch(self, count: int) -> list[Row]:
        """The next rows: of a kind at random, each effect once; the last is a message that waits."""
        self.rows = []
        for left in reversed(range(count)):
            self._now_ms += self._random.randint(0, 50)
            self._position += self._random.randint(2, 4)
            waiting = [position for position, row in self.expected.items() if row[4] == "waiting"]
            act = self._random.choice((self._schedule, self._retry, self._deliver, self._recall, self._move))
            (act if left else self._schedule)(waiting)
        self.end = self._position + 1
        return self.rows

    def _schedule(self, waiting: list[int]) -> None:
        self._begin("orders", 2, self._now_ms + self._random.randint(1, 100_000))

    def _retry(self, waiting: list[int]) -> None:
        """Its cause is a nack, which is no row of the table."""
        self._begin("%RETRY%g", 0, self._now_ms + 1_000, cause=self._position - 1, retry_topic="orders", group="g")

    def _deliver(self, waiting: list[int]) -> None:
        if waiting:
            self._end(self._random.choice(waiting), "delivered", "orders", f"{BROKER}.{self._position}")

    def _recall(self, waiting: list[int]) -> None:
        if waiting:
            tag, state = self._random.choice((("recall", "recalled"), ("drop", "dropped")))
            self._end(self._random.choice(waiting), state, DECISION_TOPIC, None, tag=tag)

    def _move(self, waiting: list[int]) -> None:
        if waiting:
            old = self._random.choice(waiting)
            due = self.expected[old][2]
            self._end(old, "moved", None, f"{BROKER}.{self._position}")
            self._begin("orders", 2, int(due.timestamp() * 1000 + 0.5), cause=old)

    def _begin(self, topic: str, queue_id: int, due_ms: int, **more: Any) -> None:
        row = {"topic": SCHEDULE_TOPIC, "real_topic": topic, "real_queue_id": queue_id, "deliver_at": moment(due_ms)}
        self._add(row | more)
        kind = "retry" if "retry_topic" in more else "delay"
        self.expected[self._position] = [topic, queue_id, moment(due_ms), kind, "waiting", None, None]

    def _end(self, position: int, state: str, topic: str | None, copy: str | None, **more: Any) -> None:
        expected = self.expected[position]
        expected[4:] = [state, moment(self._now_ms), copy]
        if topic is not None:
            known = state != "dropped" or self._random.random() < 0.5  # damage may have taken it
            self._add({"topic": topic, "cause": position, "deliver_at": expected[2] if known else None} | more)

    def _add(self, row: Row) -> None:
        common = {"broker": BROKER, "position": self._position, "store_time": moment(self._now_ms)}
        common["message_id"] = f"{BROKER}.{self._position}"
        self.rows.append(common | row)


def write(lake: Path, writer: ScheduledWriter, rows: list[Row], end: int) -> None:
    changes = SCHEDULED.of_log(pa.RecordBatch.from_pylist(rows, schema=arrow_schema_of(NAMES)))
    with ChangesFile(lake, changes.schema) as file:
        file.write(changes)
        written = [file.close()]
    writer.append(written, {BROKER: end}, 0)
    assert not list(lake.glob("*.arrow"))


def new_writer(spark: SparkSession, lake: Path) -> ScheduledWriter:
    SCHEDULED.create(spark, lake)
    writer = ScheduledWriter(spark, SCHEDULED.path(lake), Driver(spark, Lake(dir=lake)))
    writer.held([BROKER])
    return writer


def test_each_scheduled_message_is_one_row_with_its_end(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduled_writer, "FILE_ROWS", 8)  # so that a merge leaves most files alone
    monkeypatch.setattr(scheduled_writer, "SMALL_FILES_MAX", 4)
    log = Log(SEED)
    writer = new_writer(spark, tmp_path)
    for number in range(6):
        if number == 3:  # another process goes on with what the table holds
            writer = new_writer(spark, tmp_path)
            assert writer.held([BROKER]) == {BROKER: log.end}
        write(tmp_path, writer, log.batch(40), log.end)
        expected = sorted((position, *row) for position, row in log.expected.items())
        assert rows_of(tmp_path, "scheduled", SEEN) == expected, f"LAKEMQ_TEST_SEED={SEED}"


def test_a_range_without_changes_moves_the_progress_and_no_file(spark: SparkSession, tmp_path: Path) -> None:
    writer = new_writer(spark, tmp_path)
    log = Log(SEED)
    write(tmp_path, writer, log.batch(10), log.end)
    files = DeltaTable(str(SCHEDULED.path(tmp_path))).file_uris()
    writer.append([], {BROKER: 1_000}, 1)
    write(tmp_path, writer, [], 2_000)
    assert sorted(DeltaTable(str(SCHEDULED.path(tmp_path))).file_uris()) == sorted(files)
    assert new_writer(spark, tmp_path).held([BROKER]) == {BROKER: 2_000}


def test_a_merge_leaves_files_alone_that_hold_nothing_due(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduled_writer, "FILE_ROWS", 10)
    common = {"broker": BROKER, "store_time": moment(START_MS)}
    begun = {"topic": SCHEDULE_TOPIC, "real_topic": "a", "real_queue_id": 0}
    dues = [moment(START_MS + 1_000 * each) for each in range(100)]
    rows = [common | begun | {"position": each, "deliver_at": due} for each, due in enumerate(dues)]
    writer = new_writer(spark, tmp_path)
    write(tmp_path, writer, rows, 100)
    before = set(DeltaTable(str(SCHEDULED.path(tmp_path))).file_uris())
    ends = [common | {"topic": "a", "position": 100 + each, "cause": each, "deliver_at": dues[each]} for each in (0, 1)]
    write(tmp_path, writer, ends, 102)
    after = set(DeltaTable(str(SCHEDULED.path(tmp_path))).file_uris())
    assert len(before) == 10
    assert len(before - after) == 1


def test_maintenance_lets_go_of_what_ended_long_ago_and_of_nothing_that_waits(
    spark: SparkSession, tmp_path: Path
) -> None:
    def work(retention_ms: int) -> Work:
        return Work(
            spark,
            Settings(lake=Lake(dir=tmp_path, scheduled_retention_ms=retention_ms)),
            "",
            driver=Driver(spark, Lake(dir=tmp_path)),
        )

    log = Log(SEED)
    writer = new_writer(spark, tmp_path)
    write(tmp_path, writer, log.batch(60), log.end)
    waiting = sorted((position,) for position, row in log.expected.items() if row[4] == "waiting")
    assert 0 < len(waiting) < len(log.expected)
    assert drop_ended(work(3_600_000)) > 0
    assert drop_ended(work(3_600_000)) == 0
    assert rows_of(tmp_path, "scheduled", ["position"]) == waiting, f"LAKEMQ_TEST_SEED={SEED}"
    write(tmp_path, writer, log.batch(20), log.end)
    assert drop_ended(work(100 * 366 * 24 * 3_600_000)) == 0
