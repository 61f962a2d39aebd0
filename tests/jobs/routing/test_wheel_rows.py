"""The wheel's rules as Spark carries them out: rows of the log, batch after batch, and what is due as of each.

The stream here is a folder of files, so that times are what the test says; the gateways' are in the other tests.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import LongType, StructType

from lakemq.jobs.routing.session import CONF
from lakemq.jobs.routing.wheel_rows import COLUMNS, wheel_rows
from lakemq.jobs.routing.wheel_state import due_entries
from lakemq.jobs.source.columns import schema_of
from lakemq.model.delay import LEVELS_MAX
from lakemq.model.names import ACK_TOPIC, HALF_TOPIC, NACK_TOPIC, OP_TOPIC, RECEIVE_TOPIC, SCHEDULE_TOPIC
from lakemq.model.wheel import CATCH_UP_MS, LISTED_MS, SHARD_POSITIONS, WINDOW_MS, Entry, Terms, listed_until
from tests.jobs.routing.conftest import WAIT_S_MAX

T0 = 1_790_000_000_000 // WINDOW_MS * WINDOW_MS
LEAD_MS, TIMEOUT_MS, INTERVAL_MS = 5_000, 6_000, 9_000
TERMS = Terms(LEAD_MS, (100,), TIMEOUT_MS, INTERVAL_MS, 15, 16)
NO_LEAD = TERMS._replace(lead_ms=0)
Found = set[tuple[str, str, int]]
Row = dict[str, Any]


def ms(name: str) -> str:
    return f"{name}_ms"


class Wheel:
    """The query, a batch at a time: a file each. It goes on meanwhile, as to start one takes longer than a batch."""

    def __init__(self, spark: SparkSession, folder: Path, terms: dict[str, Terms]) -> None:
        self._spark, self._folder, self._terms = spark.newSession(), folder, terms
        self._query: StreamingQuery | None = None
        self._found: dict[int, list[Any]] = {}
        for key, value in CONF.items():
            self._spark.conf.set(key, value)
        (folder / "log").mkdir()
        self._clocks = dict.fromkeys(terms, 0)
        self._batches = 0
        self._far: list[Row] = []
        self.last: list[Any] = []
        """What was due in the last batch, with all columns."""

    def _rows(self) -> DataFrame:
        schema = schema_of(list(COLUMNS))
        # Times are numbers in the files: what Spark reads of a timestamp depends on the machine's zone.
        times = {field.name for field in schema if field.dataType.typeName() == "timestamp"}
        plain = StructType()
        for field in schema:
            plain = plain.add(ms(field.name) if field.name in times else field.name, _plain(field, times))
        log = self._spark.readStream.schema(plain).option("maxFilesPerTrigger", 1).json(str(self._folder / "log"))
        return log.selectExpr(*(f"timestamp_millis({ms(name)}) {name}" if name in times else name for name in COLUMNS))

    def batch(self, now: dict[str, int], *rows: Row) -> Found:
        """What is due after these rows, and when the brokers' clocks say this. What is due too late for the wheel is
        listed again when it is time, unless it has ended, as a broker does."""
        waiting = [*self._far, *rows]
        ticks = [{"broker": broker} for broker, now_ms in now.items() if now_ms > self._clocks[broker]]
        before, self._clocks = self._clocks, self._clocks | now
        lines = [
            row | {ms("broker_clock"): self._clocks[row["broker"]], ms("broker_clock_before"): before[row["broker"]]}
            for row in [*rows, *self._listed(before), *ticks]
        ]
        ended = {(row["broker"], row.get("cause")) for row in rows}
        until = {broker: listed_until(self._clocks[broker]) for broker in self._clocks}
        far = [row for row in waiting if row.get("deliver_at_ms") and row["topic"] in (SCHEDULE_TOPIC, RECEIVE_TOPIC)]
        far = [row for row in far if row["deliver_at_ms"] >= until[row["broker"]]]
        self._far = [row for row in far if (row["broker"], row["position"]) not in ended]
        self._batches += 1
        content = "\n".join(map(json.dumps, lines))
        (self._folder / f"{self._batches}.json").write_text(content, encoding="utf-8")
        (self._folder / f"{self._batches}.json").rename(self._folder / "log" / f"{self._batches}.json")
        found = self.last = self._committed(self._batches - 1)
        due = {(row.broker, Entry(row.kind).name, row.cause) for row in found}
        assert len(due) == len(found), "something is due twice"
        return due

    def _committed(self, number: int) -> list[Any]:
        """What that batch found, once Spark has noted that it is done."""
        query = self._query = self._query or self._started()
        end = time.monotonic() + WAIT_S_MAX
        while not (self._folder / "checkpoint" / "commits" / str(number)).exists():
            if not query.isActive:
                raise query.exception() or AssertionError("the stream has ended")
            assert time.monotonic() < end, "the batch does not come"
            time.sleep(0.02)
        return self._found.pop(number)

    def _started(self) -> StreamingQuery:
        def keep(frame: DataFrame, number: int) -> None:
            self._found[number] = frame.collect()

        writer = due_entries(wheel_rows(self._rows(), self._terms)).writeStream.foreachBatch(keep)
        return writer.option("checkpointLocation", str(self._folder / "checkpoint")).start()

    def stop(self) -> None:
        """End the run; the next batch begins another, which goes on with what waits."""
        if self._query is not None:
            self._query.stop()
            self._query = None

    def _listed(self, before: dict[str, int]) -> list[Row]:
        """What the brokers list as their clocks have gone on."""
        until = {broker: listed_until(now_ms) for broker, now_ms in self._clocks.items()}
        assert all(row["deliver_at_ms"] >= listed_until(before[row["broker"]]) for row in self._far)
        return [row for row in self._far if row["deliver_at_ms"] < until[row["broker"]]]

    def waiting(self) -> int:
        """How many windows there are in the state."""
        self.stop()
        return self._spark.read.format("statestore").load(str(self._folder / "checkpoint")).count()


def _plain(field: Any, times: set[str]) -> Any:
    return LongType() if field.name in times else field.dataType


def delay(position: int, due_ms: int, broker: str = "a") -> Row:
    return {"broker": broker, "position": position, "topic": SCHEDULE_TOPIC, "deliver_at_ms": due_ms}


def half(position: int, stored_ms: int, checks: int | None = None, due_ms: int | None = None) -> Row:
    """`due_ms` None: as in a log from before a half said when it is due."""
    row: Row = {"broker": "a", "position": position, "topic": HALF_TOPIC, "store_time_ms": stored_ms}
    row["deliver_at_ms"] = due_ms
    return row | {"check_times": checks}


def operation(position: int, tag: str, of: int, until_ms: int, cause: int | None = None) -> Row:
    row = {"broker": "a", "position": position, "topic": OP_TOPIC, "tag": tag, "cause": cause, "store_time_ms": T0}
    return row | {"origin_message_id": f"a.5b1f3c6e0d0a-1.{of}", "deliver_at_ms": until_ms}


def receipt(position: int, until_ms: int, instead_of: int | None = None, its_ms: int = 0) -> Row:
    row = {"broker": "a", "position": position, "topic": RECEIVE_TOPIC, "deliver_at_ms": until_ms, "cause": instead_of}
    return row | {"properties": {"replaced_until_ms": str(its_ms)} if instead_of is not None else {}}


def ack(position: int, of: int, until_ms: int) -> Row:
    return {"broker": "a", "position": position, "topic": ACK_TOPIC, "cause": of, "deliver_at_ms": until_ms}


def nack(position: int, of: int | None = None, until_ms: int | None = None, level: int = 0) -> Row:
    row: Row = {"broker": "a", "position": position, "topic": NACK_TOPIC, "store_time_ms": T0}
    row["properties"] = {"delay_level": str(level)}
    return row | {"cause": of, "deliver_at_ms": until_ms}


@pytest.fixture
def wheel(spark: SparkSession, tmp_path: Path) -> Iterator[Wheel]:
    wheel = Wheel(spark, tmp_path, {"a": TERMS, "b": NO_LEAD})
    yield wheel
    wheel.stop()


def test_what_ends_something_finds_it_whenever_it_comes(wheel: Wheel) -> None:
    until = T0 + 40_000
    due = wheel.batch(
        {"a": T0},
        half(1, T0), half(2, T0), half(3, T0), half(4, T0, checks=1),
        receipt(5, until), receipt(6, until), receipt(7, until),
        half(17, T0, due_ms=T0 + 1_000), half(18, T0, checks=1, due_ms=T0 + 2_000), half(19, T0, due_ms=T0 + 900),
        operation(8, "commit", 1, T0 + TIMEOUT_MS), operation(9, "unknown", 2, T0 + TIMEOUT_MS),
        ack(10, 5, until), nack(11),
    )  # fmt: skip
    assert due == {("a", "COMMIT", 1), ("a", "NACK", 11)}
    due = wheel.batch(
        {"a": T0 + 1_000},
        operation(12, "rollback", 3, T0 + TIMEOUT_MS, cause=3),
        receipt(13, until + 1, instead_of=6, its_ms=until), nack(14, 7, until),
        operation(20, "rollback", 19, T0 + 900, cause=19), ack(15, 999, until), ack(16, 998, until + 100 * WINDOW_MS),
    )  # fmt: skip
    assert due == {("a", "NACK", 14), ("a", "HALF", 17)}
    assert wheel.batch({"a": T0 + 2_000}) == {("a", "HALF", 18)}
    assert wheel.batch({"a": T0 + TIMEOUT_MS - 1}) == set()
    assert wheel.batch({"a": T0 + TIMEOUT_MS}) == {("a", "HALF", 2)}
    assert wheel.batch({"a": T0 + INTERVAL_MS}) == {("a", "HALF", 4)}
    assert wheel.batch({"a": until}) == set()
    assert wheel.batch({"a": until + 1}) == {("a", "RECEIPT", 13)}
    assert wheel.waiting() == 0, "an end without an entry leaves nothing"


def test_delays_are_decided_a_lead_before_their_window_and_each_broker_has_its_own_clock(wheel: Wheel) -> None:
    begin = T0 + 10 * WINDOW_MS
    rows = [delay(number, begin + at, broker) for broker in "ab" for number, at in enumerate((0, WINDOW_MS - 1))]
    assert wheel.batch({"a": T0, "b": T0}, *rows, delay(7, T0 + LEAD_MS), delay(8, T0 + LEAD_MS, "b")) == {
        ("a", "DELAY", 7),
        ("b", "DELAY", 8),
    }
    # a's lead puts the first one into the window before.
    assert wheel.batch({"a": begin - WINDOW_MS - 1, "b": T0 + 1}) == set()
    assert wheel.batch({"a": begin - WINDOW_MS}) == {("a", "DELAY", 0)}
    assert wheel.batch({"a": begin - 1}) == set()
    assert wheel.batch({"a": begin}) == {("a", "DELAY", 1)}
    assert wheel.batch({"b": begin - 1}) == set(), "a's clock says nothing of b's messages"
    assert wheel.batch({"b": begin}) == {("b", "DELAY", 0), ("b", "DELAY", 1)}
    assert wheel.waiting() == 0


def test_what_is_due_too_late_for_the_wheel_takes_no_room_and_comes_when_it_is_listed(wheel: Wheel) -> None:
    end = listed_until(T0)
    assert T0 + LISTED_MS < end <= T0 + 2 * LISTED_MS
    far, wait_ms = end + 100 * LISTED_MS, TERMS.check_interval_ms
    rows = [delay(1, end), delay(2, far), receipt(3, end), receipt(4, far), half(5, end - wait_ms, 1)]
    assert wheel.batch({"a": T0}, *rows) == set()
    assert wheel.waiting() == 0
    assert wheel.batch({"a": T0 + 1}, delay(6, end - 1), receipt(7, end - 1)) == set()
    assert wheel.waiting() == 2
    # At once: the wheel was told of it when its time was over already.
    assert wheel.batch({"a": end + 1}) == {
        ("a", "DELAY", 1),
        ("a", "DELAY", 6),
        ("a", "RECEIPT", 3),
        ("a", "RECEIPT", 7),
    }
    assert wheel.waiting() == 0


def test_whatever_level_a_nack_asks_for_it_is_due(wheel: Wheel) -> None:
    """The gateway takes up to 2**31, which is no int of Spark's; all levels above the highest are the same."""
    levels = [-(2**31), -1, 0, 1, LEVELS_MAX, 2**31 - 1, 2**31]
    due = wheel.batch({"a": T0}, *(nack(position, level=level) for position, level in enumerate(levels)))
    assert due == {("a", "NACK", position) for position in range(len(levels))}
    assert {row.cause: row.level for row in wheel.last} == {
        position: min(level, LEVELS_MAX) for position, level in enumerate(levels)
    }


def test_whatever_comes_when_each_is_due_once_and_on_time(wheel: Wheel) -> None:
    chance = random.Random(7)
    now, position = T0, 0
    left: dict[tuple[str, int], tuple[int, int]] = {}
    for number in range(12):
        # A jump passes all windows between, of each shard, which takes seconds for the longest.
        jump = chance.choice([1, 300, 5_000, WINDOW_MS, 5 * WINDOW_MS, 20 * WINDOW_MS])
        now += CATCH_UP_MS if number == 8 else jump
        rows: list[Row] = []
        for _ in range(30):
            position += chance.choice([1, SHARD_POSITIONS // 3])
            at = now + chance.choice([-5, 0, 1, 400, 6_000, 20_000, 300_000, 2 * CATCH_UP_MS])
            if chance.random() < 0.5:
                rows.append(delay(position, at))
                early = at - LEAD_MS
                left["DELAY", position] = early // WINDOW_MS * WINDOW_MS, early
            else:
                rows.append(receipt(position, at))
                left["RECEIPT", position] = at, at
        for kind, cause in chance.sample(sorted(left), 5):
            if kind == "RECEIPT":
                position += 1
                rows.append(ack(position, cause, left.pop((kind, cause))[0]))
        due = {(kind, cause) for _, kind, cause in wheel.batch({"a": now}, *rows)}
        assert due <= set(left), "what was ended, or was due before, is due"
        for key in due:
            first, _ = left.pop(key)
            assert first <= now
        assert [key for key, (_, last) in left.items() if last <= now] == []
