"""`format("lakemq")` against a real gateway."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from lakemq.testing import GatewayProcess, start_gateway
from tests.jobs.conftest import Produce, produce_to
from tests.jobs.streams import begun

Read = Callable[..., DataFrame]


@pytest.fixture
def read(spark: SparkSession, gateway: GatewayProcess) -> Read:
    def load(**options: str) -> DataFrame:
        return spark.read.format("lakemq").options(broker=gateway.url, **options).load()

    return load


class Stream:
    """A stream that notes the rows of each batch."""

    def __init__(self, spark: SparkSession, url: str, checkpoint: Path) -> None:
        self._spark, self._url, self._checkpoint = spark, url, checkpoint
        self.batches: list[list[Row]] = []

    def run_to_end(self, **options: str) -> list[Row]:
        """Reads all that is there, and returns the rows that were new."""
        before = len(self.batches)
        reader = self._spark.readStream.format("lakemq").options(broker=self._url, **options)

        def note(frame: DataFrame, _epoch: int) -> None:
            self.batches.append(frame.collect())

        def run() -> None:
            writer = reader.load().writeStream.foreachBatch(note).trigger(availableNow=True)
            writer.option("checkpointLocation", str(self._checkpoint)).start().awaitTermination()

        begun(run)
        return [row for batch in self.batches[before:] for row in batch]

    def offset(self) -> dict[str, Any]:
        files = [file for file in (self._checkpoint / "offsets").iterdir() if file.name.isdecimal()]
        last = max(files, key=lambda file: int(file.name))
        return json.loads(last.read_text(encoding="utf-8").splitlines()[-1])


@pytest.fixture
def stream(spark: SparkSession, gateway: GatewayProcess, tmp_path: Path) -> Stream:
    return Stream(spark, gateway.url, tmp_path / "checkpoint")


def numbered(count: int, begin: int = 0) -> list[dict[str, Any]]:
    return [{"body": f"b{number}"} for number in range(begin, begin + count)]


def bodies(rows: list[Row]) -> list[str]:
    return sorted(bytes(row.body).decode() for row in rows)


def test_a_batch_read_equals_what_was_produced(read: Read, produce: Produce, topic: str) -> None:
    full: dict[str, Any] = {
        "body": "héllo",
        "tag": "T",
        "keys": ["k1", "k2"],
        "properties": {"a": "b", "c": ""},
        "ordering_key": "order-42",
        "born_time_ms": 1_234_567,
    }
    answers = produce(topic, [full, {"body": "", "queue_id": 0}])
    first, second = read(subscribe=topic).orderBy("position").collect()
    assert (first.topic, first.queue_id, first.queue_offset, first.position, first.message_id) == (
        topic,
        answers[0]["queue_id"],
        answers[0]["queue_offset"],
        answers[0]["position"],
        answers[0]["message_id"],
    )
    assert re.fullmatch(rf"{first.broker}[.][0-9a-f]{{12}}-1[.]{first.position}", first.message_id)
    assert bytes(first.body).decode() == full["body"]
    assert (first.tag, first["keys"], first.properties, first.ordering_key) == (
        full["tag"],
        full["keys"],
        full["properties"],
        full["ordering_key"],
    )
    assert first.born_time.astimezone(UTC) == datetime.fromtimestamp(1_234.567, UTC)
    stored = datetime.fromtimestamp(answers[0]["store_time_ms"] / 1000, UTC)
    assert first.store_time.astimezone(UTC) == stored
    assert first.store_date == stored.date()
    assert first.clock >= first.store_time
    assert first.reconsume_times == 0
    assert (bytes(second.body), second.tag, second.ordering_key, second.deliver_at) == (
        b"",
        None,
        None,
        None,
    )


def test_bodies_can_be_left_out(read: Read, produce: Produce, topic: str) -> None:
    produce(topic, [{"body": "12345"}])
    frame = read(subscribe=topic, columns="size,topic")
    assert frame.columns == ["size", "topic"]
    assert [tuple(row) for row in frame.collect()] == [(5, topic)]


def test_a_pattern_matches_whole_names(read: Read, produce: Produce, topic: str) -> None:
    for suffix in ("", "-a", "-b"):
        produce(topic + suffix, [{"body": suffix}])
    rows = read(subscribePattern=f"{topic}-[ab]", columns="topic").collect()
    assert sorted(row.topic for row in rows) == [f"{topic}-a", f"{topic}-b"]


def test_without_a_subscription_system_topics_are_read_too(read: Read, produce: Produce, topic: str) -> None:
    produce(topic, [{"body": "x"}])
    rows = read(columns="topic,position").collect()
    topics = {row.topic for row in rows}
    assert topic in topics
    assert any(name.startswith("RMQ_SYS_") for name in topics)
    assert sorted(row.position for row in rows) == list(range(len(rows)))


def test_queues_begin_at_their_starting_offsets(read: Read, produce: Produce, topic: str) -> None:
    produce(topic, [{"body": f"{queue}-{at}", "queue_id": queue} for at in range(5) for queue in range(4)])
    offsets = json.dumps({topic: {"0": 3, "1": -1, "2": -2, "3": 0}})
    rows = read(subscribe=topic, startingOffsets=offsets).collect()
    expected = ["0-3", "0-4", *(f"{queue}-{at}" for queue in (2, 3) for at in range(5))]
    assert bodies(rows) == expected


def test_queues_that_are_not_named_begin_at_the_earliest(read: Read, produce: Produce, topic: str) -> None:
    produce(topic, [{"body": f"{queue}-{at}", "queue_id": queue} for at in range(2) for queue in range(4)])
    rows = read(subscribe=topic, startingOffsets=json.dumps({topic: {"2": 1}})).collect()
    assert bodies(rows) == ["0-0", "0-1", "1-0", "1-1", "2-1", "3-0", "3-1"]


def test_queues_end_at_their_ending_offsets(read: Read, produce: Produce, topic: str) -> None:
    produce(topic, [{"body": f"{queue}-{at}", "queue_id": queue} for at in range(3) for queue in range(4)])
    offsets = json.dumps({topic: {"0": 1, "1": 0, "2": -1, "3": 0}})
    assert bodies(read(subscribe=topic, endingOffsets=offsets).collect()) == ["0-0", "2-0", "2-1", "2-2"]


def test_a_read_begins_at_a_time(read: Read, produce: Produce, topic: str) -> None:
    produce(topic, numbered(1))
    time.sleep(0.05)
    second = produce(topic, numbered(1, 1))[0]
    rows = read(subscribe=topic, startingTimestamp=str(second["store_time_ms"])).collect()
    assert bodies(rows) == ["b1"]


def test_several_partitions_read_each_message_once(read: Read, produce: Produce, topic: str) -> None:
    first = produce(topic, numbered(10_000))[0]["position"]
    for begin in range(10_000, 40_000, 10_000):
        produce(topic, numbered(10_000, begin))
    start = json.dumps({"positions": {"broker-a": first}})
    frame = read(subscribe=topic, startingOffsets=start, partitions="3", columns="position")
    assert frame.rdd.getNumPartitions() == 3
    positions = sorted(row.position for row in frame.collect())
    assert len(positions) == len(set(positions)) == 40_000


def test_a_position_beyond_the_log_is_an_error(read: Read) -> None:
    beyond = json.dumps({"positions": {"broker-a": 2**40}})
    with pytest.raises(PySparkException, match="whose log ends at"):
        read(startingOffsets=beyond).collect()


def test_an_unknown_option_is_an_error(read: Read) -> None:
    with pytest.raises(PySparkException, match="unknown option 'subscrib'"):
        read(subscrib="a")


def test_an_unknown_topic_of_offsets_is_an_error(read: Read, topic: str) -> None:
    with pytest.raises(PySparkException, match="404"):
        read(subscribe=topic, startingOffsets=json.dumps({topic: {"0": 0}})).collect()


def test_a_stream_reads_each_message_once_over_restarts(stream: Stream, produce: Produce, topic: str) -> None:
    produce(topic, numbered(250))
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxMessagesPerTrigger": "100"}
    rows = stream.run_to_end(**options)
    assert bodies(rows) == sorted(f"b{number}" for number in range(250))
    assert len(stream.batches) >= 3
    assert all(len(batch) <= 100 for batch in stream.batches)
    produce(topic, numbered(30, 250))
    assert bodies(stream.run_to_end(**options)) == sorted(f"b{number}" for number in range(250, 280))


def test_a_stream_does_not_go_on_with_another_log(
    spark: SparkSession, stream: Stream, produce: Produce, topic: str, tmp_path: Path
) -> None:
    produce(topic, numbered(3))
    stream.run_to_end(subscribe=topic, startingOffsets="earliest")
    with start_gateway(tmp_path / "other") as other:
        produce_to(other.url, topic, numbered(3))
        again = Stream(spark, other.url, tmp_path / "checkpoint")
        with pytest.raises(PySparkException, match="positions mean other messages"):
            again.run_to_end(subscribe=topic)
    assert again.batches == []


def test_the_offset_stays_while_nothing_new_is_in_the_subscription(
    stream: Stream, produce: Produce, topic: str
) -> None:
    produce(topic, numbered(3))
    options = {"subscribe": topic, "startingOffsets": "earliest"}
    stream.run_to_end(**options)
    offset = stream.offset()
    produce(f"{topic}-other", numbered(3))
    assert stream.run_to_end(**options) == []
    assert stream.offset() == offset
    assert len(stream.batches) == 1


def test_starting_offsets_of_queues_hold_over_restarts(stream: Stream, produce: Produce, topic: str) -> None:
    produce(topic, [{"body": f"{queue}-{at}", "queue_id": queue} for at in range(2) for queue in range(4)])
    start = json.dumps({topic: {str(queue): at for queue, at in enumerate((-1, 1, -1, 5))}})
    options = {"subscribe": topic, "startingOffsets": start}
    assert bodies(stream.run_to_end(**options)) == ["1-1"]
    produce(topic, [{"body": f"{queue}-{at}", "queue_id": queue} for at in range(2, 6) for queue in range(4)])
    expected = [f"{queue}-{at}" for queue in range(3) for at in range(2, 6)] + ["3-5"]
    assert bodies(stream.run_to_end(**options)) == expected


def test_the_clock_of_batches_never_goes_back(stream: Stream, produce: Produce, topic: str) -> None:
    produce(topic, numbered(3))
    options = {"subscribe": topic, "startingOffsets": "earliest", "columns": "clock,store_time"}
    stream.run_to_end(**options, maxMessagesPerTrigger="1")
    clocks = [{row.clock for row in batch} for batch in stream.batches]
    assert [len(clock) for clock in clocks] == [1, 1, 1]
    flat = [next(iter(clock)) for clock in clocks]
    assert flat == sorted(flat)
    assert all(row.clock >= row.store_time for batch in stream.batches for row in batch)
