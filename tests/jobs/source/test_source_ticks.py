"""Streams of `format("lakemq")` that wait for news, and that carry ticks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.streaming.query import StreamingQuery

from lakemq.jobs.source.data_source import LogStreamReader
from lakemq.jobs.source.options import TICK_MS_MAX, parse_options
from lakemq.model.names import SCHEDULE_TOPIC
from lakemq.model.wheel import LISTED_MS
from lakemq.testing import GatewayProcess, start_gateway
from tests.jobs.conftest import Produce, produce_to
from tests.jobs.streams import begun

WAIT_S_MAX = 300.0
HOUR_MS = 3_600_000
AFTER_MS = LISTED_MS // 2
"""What is due so long after an hour is still to come when a slow test has got there."""


def is_tick(row: Row) -> bool:
    """A row that only says what time it is."""
    return row.position is None


class Ticking:
    """A stream of position and times that notes the rows of each batch while it runs."""

    def __init__(self, spark: SparkSession, url: str, checkpoint: Path) -> None:
        self._spark, self._url, self._checkpoint = spark, url, checkpoint
        self.batches: list[list[Row]] = []

    def run_until(
        self, done: Callable[[], bool], options: dict[str, str], then: Callable[[], object] = lambda: None
    ) -> None:
        reader = self._spark.readStream.format("lakemq").options(
            broker=self._url,
            columns="broker,position,topic,clock,event_time,store_time,broker_clock,broker_clock_before",
            startingOffsets="earliest",
            **options,
        )

        def begin() -> StreamingQuery:
            writer = reader.load().writeStream.foreachBatch(lambda frame, _: self.batches.append(frame.collect()))
            query = writer.option("checkpointLocation", str(self._checkpoint)).start()
            wait_until(lambda: bool(self.batches) or not query.isActive)
            error = query.exception()
            if error is not None:
                raise error
            return query

        query = begun(begin)
        try:
            then()
            wait_until(lambda: done() or not query.isActive)
            assert query.exception() is None
        finally:
            query.stop()

    def ticks(self) -> list[Row]:
        return [row for batch in self.batches for row in batch if is_tick(row)]

    def messages(self) -> list[Row]:
        return [row for batch in self.batches for row in batch if not is_tick(row)]


def wait_until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_S_MAX
    while not done():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.02)


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[GatewayProcess]:
    """A gateway that anticipates nothing, and of which no query decides anything."""
    with start_gateway(tmp_path / "log", routing__lead_ms=0, routing__grace_ms=-1) as process:
        yield process


def delayed(url: str, topic: str, delay_ms: int) -> None:
    produce_to(url, topic, [{"body": "x", "delay_ms": delay_ms}])


def test_a_stream_with_ticks_begins_with_one_and_each_batch_has_one(
    spark: SparkSession, gateway: GatewayProcess, produce: Produce, topic: str, tmp_path: Path
) -> None:
    stream = Ticking(spark, gateway.url, tmp_path / "checkpoint")
    options = {"subscribe": topic, "tickMs": "100", "waitMs": "1000"}
    stream.run_until(
        lambda: len(stream.messages()) == 3,
        options,
        lambda: produce(topic, [{"body": "a"}, {"body": "b"}, {"body": "c"}]),
    )
    assert [is_tick(row) for row in stream.batches[0]] == [True]
    for batch in stream.batches:
        (tick,) = [row for row in batch if is_tick(row)]
        assert (tick.topic, tick.store_time) == (None, None)
        assert {row.clock for row in batch} == {tick.clock} == {tick.event_time}
        assert {row.broker for row in batch} == {"broker-a"}
    clocks = [tick.clock for tick in stream.ticks()]
    assert sorted(set(clocks)) == clocks
    assert len(stream.batches) <= 4


def test_while_a_timer_is_over_there_are_batches_with_the_same_positions_and_later_clocks(
    spark: SparkSession, waiting: GatewayProcess, tmp_path: Path, topic: str
) -> None:
    stream = Ticking(spark, waiting.url, tmp_path / "checkpoint")
    delayed(waiting.url, topic, 1)
    options = {"subscribe": SCHEDULE_TOPIC, "timer": "delay", "tickMs": "20", "waitMs": "1000"}
    stream.run_until(lambda: len(stream.batches) >= 5, options)
    assert [row.topic for row in stream.messages()] == [SCHEDULE_TOPIC]
    assert len(stream.ticks()) == len(stream.batches)
    offsets = sorted((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    contents = [json.loads(file.read_text(encoding="utf-8").splitlines()[-1]) for file in offsets]
    assert len({json.dumps(content["positions"]) for content in contents}) == 1
    clocks = [content["clock_ms"] for content in contents]
    assert all(later - earlier >= 20 for earlier, later in pairwise(clocks))


def test_nothing_ticks_for_what_is_due_in_an_hour(
    spark: SparkSession, waiting: GatewayProcess, tmp_path: Path, topic: str
) -> None:
    stream = Ticking(spark, waiting.url, tmp_path / "checkpoint")
    delayed(waiting.url, topic, HOUR_MS)
    options = {"subscribe": f"{SCHEDULE_TOPIC},{topic}", "timer": "delay", "tickMs": "10", "waitMs": "300"}
    looks: list[float] = []
    stream.run_until(lambda: looks.append(0) is None and len(looks) > 50, options)
    assert len(stream.batches) == 1


def test_the_event_time_is_the_store_time_unless_that_were_late(
    spark: SparkSession, gateway: GatewayProcess, produce: Produce, topic: str, tmp_path: Path
) -> None:
    produce(topic, [{"body": str(number)} for number in range(20)])
    stream = Ticking(spark, gateway.url, tmp_path / "checkpoint")
    options = {"subscribe": topic, "tickMs": "100", "maxMessagesPerTrigger": "8"}
    stream.run_until(lambda: len(stream.messages()) == 20, options)
    first, *others = [batch for batch in stream.batches if len(batch) > 1]
    assert all(row.event_time == row.store_time for row in first if not is_tick(row))
    before: Any = first[0].clock
    for batch in others:
        assert all(before < row.event_time <= row.clock for row in batch)
        before = batch[0].clock


def test_several_brokers_are_waited_for_at_once(
    spark: SparkSession, gateway: GatewayProcess, tmp_path: Path, topic: str
) -> None:
    with start_gateway(tmp_path / "log", broker__name="broker-b", routing__lead_ms=0, routing__grace_ms=-1) as other:
        stream = Ticking(spark, f"{gateway.url},{other.url}", tmp_path / "checkpoint")

        def produce_to_both() -> None:
            for url in (other.url, gateway.url, other.url):
                produce_to(url, topic, [{"body": "x"}])
            delayed(other.url, topic, 1)

        options = {"subscribe": topic, "timer": "delay", "tickMs": "20", "waitMs": "2000"}
        stream.run_until(lambda: len(stream.messages()) == 3 and len(stream.batches) >= 8, options, produce_to_both)
        assert sorted(row.broker for row in stream.messages()) == ["broker-a", "broker-b", "broker-b"]
        for broker in ("broker-a", "broker-b"):
            ticks = [tick for tick in stream.ticks() if tick.broker == broker]
            clocks = [tick.broker_clock for tick in ticks]
            assert sorted(set(clocks)) == clocks
            before = [tick.broker_clock_before for tick in ticks]
            assert before[1:] == clocks[:-1], "each batch says where the one before it ended"


def test_while_nothing_waits_there_is_a_tick_now_and_then(gateway: GatewayProcess, topic: str) -> None:
    options = {"broker": gateway.url, "subscribe": topic, "timer": "any", "waitMs": "50"}
    reader = LogStreamReader(parse_options(options), ["position", "clock"])
    try:
        start = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
        assert reader.latestOffset(start, ReadAllAvailable()) == start
        long_ago = start | {"clock_ms": start["clock_ms"] - TICK_MS_MAX}
        ticked = reader.latestOffset(long_ago, ReadAllAvailable())
        assert ticked["positions"] == start["positions"]
        assert [part.tick for part in reader.partitions(long_ago | {"clocks": {}}, ticked)] == [True]
    finally:
        reader.stop()


def test_what_is_pending_is_listed_as_the_brokers_clock_comes_to_it(tmp_path: Path) -> None:
    """Rows as the log's, each when the stretch of time that it is due in comes near, and each once."""
    columns = ["broker", "position", "topic", "deliver_at", "cause", "broker_clock"]
    options = {"timer": "any", "pending": "delay,transaction,nack,receipt", "startingOffsets": "latest"}
    rows: list[dict[str, Any]] = []
    start: dict[str, Any] | None = None
    port = 0
    for hours in range(4):
        own = {"gateway__port": port, "routing__lead_ms": 0, "routing__grace_ms": -1}
        with start_gateway(tmp_path / "log", hours * HOUR_MS, **own) as gateway:
            port = int(gateway.url.rpartition(":")[2])
            if start is None:
                for later in range(4):
                    delayed(gateway.url, "t", later * HOUR_MS + AFTER_MS)
            reader = LogStreamReader(parse_options(options | {"broker": gateway.url}), columns)
            begin = reader.initialOffset() if start is None else start
            start = reader.latestOffset(begin, ReadAllAvailable())
            for part in reader.partitions(begin, start):
                for batch in reader.read(part):
                    rows += batch.to_pylist()
            reader.stop()
            assert len([row for row in rows if row["position"] is not None]) == hours + 1
    listed = [row for row in rows if row["position"] is not None]
    assert [row["position"] for row in listed] == sorted({row["position"] for row in listed})
    assert {(row["topic"], row["cause"]) for row in listed} == {(SCHEDULE_TOPIC, None)}
    for row in listed:
        ahead_ms = (row["deliver_at"] - row["broker_clock"]).total_seconds() * 1000
        assert 0 < ahead_ms < 2 * LISTED_MS
