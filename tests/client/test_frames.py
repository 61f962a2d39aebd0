"""Topics and backlogs as frames, and frames into topics."""

from __future__ import annotations

import asyncio
import datetime as dt
import subprocess
import sys
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lakemq.client import (
    InvalidRequest,
    MessageTooLarge,
    PullConsumer,
    RowsNotSent,
    SimpleConsumer,
    TopicNotFound,
    Unreachable,
    WrongType,
    aio,
    read_backlog,
    read_sql,
    read_topic,
    write_topic,
)
from lakemq.testing import GatewayProcess
from tests.client.consuming import make_topic, numbered, put
from tests.client.producing import stored

ROWS = {
    "id": [1, 2, 3],
    "kind": ["a", None, "c"],
    "at": [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)] * 3,
    "x": [1.5, 2.0, None],
}


FRAMES = [pd.DataFrame(ROWS), pl.DataFrame(ROWS), pa.table(ROWS), pa.record_batch(ROWS), ROWS]


@pytest.mark.parametrize("frame", FRAMES, ids=["pandas", "polars", "table", "batch", "dict"])
def test_rows_of_any_frame_are_messages(gateway: GatewayProcess, topic: str, frame: Any) -> None:
    make_topic(gateway.url, topic, 1)
    assert write_topic(topic, frame, key="id", tag="kind", properties=["at"], brokers=gateway.url) == 3
    messages = [*stored(gateway.url, topic)]
    assert [message.json() for message in messages] == [{"x": 1.5}, {"x": 2.0}, {"x": None}]
    assert [(message.keys, message.tag) for message in messages] == [(["1"], "a"), (["2"], None), (["3"], "c")]
    assert {message.properties["at"] for message in messages} == {"2026-01-01T00:00:00+00:00"}


def test_what_was_written_is_read_again(gateway: GatewayProcess, topic: str) -> None:
    rows = {
        "id": [1, 2],
        "tag": ["x", "y"],
        "price": [Decimal("1.10"), None],
        "lines": [[1], []],
        "day": [dt.date(2026, 1, 1)] * 2,
    }
    write_topic(topic, rows, key=["id", "tag"], brokers=gateway.url)
    frame = read_topic(topic, body="json", brokers=gateway.url)
    found = frame.to_polars().sort("keys")
    assert found["keys"].to_list() == [["1", "x"], ["2", "y"]]
    assert found.select("price", "lines", "day").rows() == [("1.10", [1], "2026-01-01"), (None, [], "2026-01-01")]
    assert str(frame.to_pandas()["store_time"].dtype) == "datetime64[ms, UTC]"
    assert not frame.truncated


def test_bodies_are_columns_text_or_bytes(gateway: GatewayProcess, topic: str) -> None:
    make_topic(gateway.url, topic, 1)
    put(gateway.url, topic, ['{"a": 1, "tag": "own"}', '{"a": "one", "b": {"c": null}}'], tag="T")
    found = read_topic(topic, body="json", brokers=gateway.url).to_arrow()
    assert [found.column(name).to_pylist() for name in ("a", "tag", "body_tag")] == [
        ["1", '"one"'],
        ["T"] * 2,
        ["own", None],
    ]
    assert "body" not in found.schema.names
    put(gateway.url, topic, ["no object"])
    assert read_topic(topic, body="text", brokers=gateway.url).to_pandas()["body"].to_list()[2] == "no object"
    with pytest.raises(InvalidRequest, match=r"the body of message broker-a\S+ is no JSON object"):
        read_topic(topic, body="json", brokers=gateway.url)
    write_topic(topic, {"body": [b"\xff"]}, body="body", brokers=gateway.url)
    assert read_topic(topic, brokers=gateway.url).to_arrow().column("body").to_pylist()[3] == b"\xff"
    with pytest.raises(InvalidRequest, match="no UTF-8 text"):
        read_topic(topic, body="text", brokers=gateway.url)
    with pytest.raises(InvalidRequest, match="body is one of"):
        read_topic(topic, body="xml", brokers=gateway.url)  # pyright: ignore[reportArgumentType]


def test_what_is_cut_are_the_oldest_of_all_queues_and_it_says_so(gateway: GatewayProcess, topic: str) -> None:
    make_topic(gateway.url, topic, 3)
    for number in range(30):
        put(gateway.url, topic, [f"{number:02}"], queue_id=number % 3)
    for rows_max in (1, 7, 29):
        frame = read_topic(topic, body="text", rows_max=rows_max, brokers=gateway.url)
        times = frame.to_arrow().column("store_time").to_pylist()
        assert (len(frame), frame.truncated, times) == (rows_max, True, sorted(times))
    assert [f"{number:02}" for number in range(7)] == sorted(
        read_topic(topic, body="text", rows_max=7, brokers=gateway.url).to_pandas()["body"]
    )
    whole = read_topic(topic, rows_max=30, brokers=gateway.url)
    assert (len(whole), whole.truncated) == (30, False)
    few = read_topic(topic, bytes_max=1, brokers=gateway.url)
    assert len(few) <= 30
    assert len(read_topic(topic, begin=2, end=4, brokers=gateway.url)) == 6
    bounds: list[dict[str, Any]] = [{"rows_max": 0}, {"bytes_max": 0}, {"bytes_max": 2**40}]
    for bound in bounds:
        with pytest.raises(InvalidRequest, match="rows_max is at least 1"):
            read_topic(topic, brokers=gateway.url, **bound)


def test_filters_and_times_choose_rows_and_an_empty_frame_has_all_columns(gateway: GatewayProcess, topic: str) -> None:
    put(gateway.url, topic, numbered(4), tag="a")
    put(gateway.url, topic, numbered(2, "b"), tag="b")
    assert len(read_topic(topic, tags="b", brokers=gateway.url)) == 2
    later = read_topic(topic, begin=dt.datetime(2100, 1, 1, tzinfo=dt.UTC), body="text", brokers=gateway.url)
    assert (len(later), "store_time" in later.to_polars().columns) == (0, True)
    with pytest.raises(TopicNotFound):
        read_topic(f"{topic}-not", brokers=gateway.url)


def test_a_backlog_is_what_the_group_has_yet_to_consume(gateway: GatewayProcess, topic: str, group: str) -> None:
    put(gateway.url, topic, numbered(10))
    with SimpleConsumer(group, brokers=gateway.url) as consumer:
        done = consumer.receive(topic, 4)
        consumer.ack(done)
        backlog = read_backlog(group, body="text", brokers=gateway.url)
        assert sorted(backlog.to_pandas()["body"]) == sorted({*numbered(10)} - {message.text() for message in done})
    assert len(read_backlog(group, topic, rows_max=2, brokers=gateway.url)) == 2
    assert len(read_backlog(group, "other", brokers=gateway.url)) == 0
    with PullConsumer(f"{group}-pull", brokers=gateway.url) as consumer:
        consumer.assign(consumer.queues_of(topic))
        consumer.seek_to_end()
    assert len(read_backlog(f"{group}-pull", brokers=gateway.url)) == 0


def test_a_row_that_cannot_be_sent_is_named(gateway: GatewayProcess, topic: str) -> None:
    good, bad = {"a": 1}, {"a": b"bytes"}
    frame = pa.table({"n": [0, 1, 2], "body": ["x", None, "y"]})
    with pytest.raises(RowsNotSent, match="row 1: column 'body', the body, is bytes or text") as raised:
        write_topic(topic, frame, body="body", brokers=gateway.url)
    assert [number for number, _ in raised.value.rows] == [1]
    assert (raised.value.next_row, raised.value.stored) == (2, 1)
    assert len(stored(gateway.url, topic)) == 1
    with pytest.raises(RowsNotSent, match="column 'a' has no form in JSON"):
        write_topic(topic, pl.DataFrame([bad]), brokers=gateway.url)
    large = pa.table({"body": ["x", "y" * (5 * 1024 * 1024), "z"]})
    with pytest.raises(RowsNotSent) as raised:
        write_topic(topic, large, body="body", brokers=gateway.url)
    [(number, error)] = raised.value.rows
    assert (number, type(error), raised.value.stored) == (1, MessageTooLarge, 2)
    assert write_topic(topic, pl.DataFrame([good] * 12_000), brokers=gateway.url) == 12_000


def test_columns_that_there_are_not_and_what_is_no_frame_are_refused_before_anything_is_sent(
    gateway: GatewayProcess, topic: str
) -> None:
    naming: list[dict[str, Any]] = [{"tag": "no"}, {"key": ["a", "no"]}, {"properties": ["no"]}, {"body": "no"}]
    for given in naming:
        with pytest.raises(InvalidRequest, match="the frame has 0 columns 'no'; it has a"):
            write_topic(topic, {"a": [1]}, brokers=gateway.url, **given)
    with pytest.raises(WrongType):
        write_topic(topic, [1, 2], brokers=gateway.url)
    with pytest.raises(WrongType):
        write_topic(topic, {"a": [1]}, properties="a", brokers=gateway.url)
    with pytest.raises(TopicNotFound):
        stored(gateway.url, topic)


def test_the_asyncio_face_is_the_same(gateway: GatewayProcess, topic: str) -> None:
    async def run() -> int:
        await aio.write_topic(topic, pd.DataFrame({"a": [1, 2]}), brokers=gateway.url)
        return len(await aio.read_topic(topic, brokers=gateway.url))

    assert asyncio.run(run()) == 2
    with pytest.raises(Unreachable, match="no jobs that answer SQL"):
        read_sql("SELECT 1", brokers=gateway.url)


@pytest.mark.parametrize("name", ["pandas", "polars"])
def test_a_library_that_is_not_there_is_named_with_what_installs_it(name: str) -> None:
    program = f"""
import sys

class Lacks:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {name!r}:
            raise ModuleNotFoundError(name=name)

sys.meta_path.insert(0, Lacks())
import pyarrow as pa
from lakemq.client import Frame
try:
    Frame(pa.table({{"a": [1]}}), False).to_{name}()
except ImportError as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == f"this needs {name}, which is not installed: pip install 'lakemq[{name}]'"
