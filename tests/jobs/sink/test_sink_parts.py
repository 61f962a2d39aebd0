"""The sink's tasks and commits without Spark: rows to parts, options, and batches that come again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import UTC, datetime

import httpx
import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from lakemq.jobs.errors import BrokerUnavailable, InvalidOption
from lakemq.jobs.sink.options import SinkOptions, check_columns, parse_sink_options
from lakemq.jobs.sink.writer import PART_BYTES, abort, commit, stage, to_request
from lakemq.model.errors import LakemqError
from lakemq.testing import GatewayProcess
from tests.gateway.http_client import connect, pull_all

SMALL = 10


@pytest.fixture
def http(gateway: GatewayProcess) -> Iterator[httpx.Client]:
    with connect(gateway) as client:
        yield client


def rows(*bodies: bytes) -> pa.RecordBatch:
    return pa.record_batch({"body": pa.array(bodies, pa.binary())})


def test_rows_become_messages_once_however_often_and_however_cut_their_batch_is_written(
    gateway: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    options = SinkOptions(gateway.url, topic)
    for cut in ([rows(b"1", b"2"), rows(b"3")], [rows(b"3", b"1", b"2")]):
        tasks = [stage(options, topic, 0, iter([batch])) for batch in cut]
        commit(options, topic, 0, tasks, once=False)
    assert sorted(message["body"] for message in pull_all(http, topic)) == ["1", "2", "3"]


def test_large_batches_are_cut_into_parts_that_a_request_can_hold(
    gateway: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    large = [os.urandom(PART_BYTES // 2 - 1_000) for _ in range(5)]
    bodies = [b"small"] * SMALL + large
    options = SinkOptions(gateway.url, topic)
    staged = stage(options, topic, 0, iter([rows(*bodies), rows(), rows(b"last")]))
    assert 3 <= len(staged.parts) <= 5
    commit(options, topic, 0, [staged], once=True)
    found = http.get(f"/v1/topics/{topic}").json()["queues"]
    assert sum(queue["max_offset"] for queue in found) == SMALL + len(large) + 1


def test_a_task_without_rows_stages_nothing(gateway: GatewayProcess, topic: str) -> None:
    assert stage(SinkOptions(gateway.url, topic), topic, 0, iter([rows()])).parts == []


def test_what_is_aborted_can_not_be_committed(gateway: GatewayProcess, topic: str) -> None:
    options = SinkOptions(gateway.url, topic)
    staged = stage(options, topic, 0, iter([rows(b"1")]))
    abort(options, [staged])
    with pytest.raises(LakemqError, match="not staged") as error:
        commit(options, topic, 0, [staged], once=False)
    assert error.value.code == "part_not_found"


def test_an_abort_that_reaches_nobody_is_no_error_and_a_commit_is(topic: str) -> None:
    options = SinkOptions("http://127.0.0.1:9", topic, retry_s=0)
    staged = stage(options, topic, 0, iter([]))
    abort(options, [staged])
    with pytest.raises(BrokerUnavailable):
        commit(options, topic, 0, [staged], once=False)


def test_a_message_that_the_gateway_refuses_fails_its_task_by_name(gateway: GatewayProcess, topic: str) -> None:
    bad = pa.record_batch({"body": pa.array([b"x"]), "tag": pa.array(["a || b"])})
    with pytest.raises(LakemqError, match="'tag', row 0"):
        stage(SinkOptions(gateway.url, topic), topic, 0, iter([bad]))


def test_times_are_milliseconds_in_a_request() -> None:
    time = datetime(2026, 1, 2, 3, 4, 5, 678_900, tzinfo=UTC)
    batch = pa.record_batch({"body": ["x"], "deliver_at": pa.array([time], pa.timestamp("us", "UTC"))})
    assert to_request(batch).to_pydict() == {"body": ["x"], "deliver_at_ms": [1_767_323_045_678]}


def options_of(**given: str) -> dict[str, str]:
    return {"broker": "http://b", "topic": "t", **given}


def test_options_are_read_without_case() -> None:
    given = options_of(GROUP="g", SINK="s", Batch="7", progress="p", RETRYSECONDS="5", checkpointLocation="x")
    assert parse_sink_options(given, streaming=False) == SinkOptions("http://b", "t", "g", "s", 7, "p", 5)


@pytest.mark.parametrize(
    ("given", "streaming", "named"),
    [
        ({"topic": "t"}, False, "broker"),
        ({"broker": "http://b"}, False, "topic"),
        (options_of(broker="http://a,http://b"), False, "one gateway"),
        (options_of(subscribe="t"), False, "subscribe"),
        (options_of(sink="s"), False, "both"),
        (options_of(batch="1"), False, "both"),
        (options_of(sink="s", batch="1"), True, "checkpoint"),
        (options_of(sink="s", batch="-1"), False, "batch"),
        (options_of(retrySeconds="x"), False, "retrySeconds"),
        (options_of(progress="x" * 5_000), False, "progress"),
    ],
)
def test_an_option_that_can_not_be_is_named(given: dict[str, str], streaming: bool, named: str) -> None:
    with pytest.raises(InvalidOption, match=named):
        parse_sink_options(given, streaming)


TEXTS = ArrayType(StringType())


def schema_of(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


@pytest.mark.parametrize(
    ("schema", "named"),
    [
        (schema_of(tag=StringType()), "needs a column 'body'"),
        (schema_of(body=StringType(), colour=StringType()), "colour"),
        (schema_of(body=IntegerType()), "binary or string"),
        (schema_of(body=StringType(), keys=StringType()), "array<string>"),
        (schema_of(body=StringType(), keys=ArrayType(LongType())), "array<string>"),
        (schema_of(body=StringType(), properties=MapType(StringType(), LongType())), "map<string,string>"),
        (schema_of(body=StringType(), deliver_at=LongType()), "timestamp"),
        (schema_of(body=StringType(), queue_id=StringType()), "an integer"),
    ],
)
def test_a_column_that_is_no_part_of_a_message_is_named(schema: StructType, named: str) -> None:
    with pytest.raises(InvalidOption, match=named):
        check_columns(schema)


def test_all_columns_of_a_message_are_taken() -> None:
    texts = dict.fromkeys(("tag", "ordering_key", "origin_message_id"), StringType())
    times = dict.fromkeys(("deliver_at", "born_time"), TimestampType())
    properties = MapType(StringType(), StringType())
    check_columns(
        schema_of(body=BinaryType(), queue_id=LongType(), keys=TEXTS, properties=properties, **texts, **times)
    )
