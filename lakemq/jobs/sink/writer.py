"""`format("lakemq")` as a sink: rows of any DataFrame become messages of a topic, each exactly once.

Tasks stage their rows in parts at the broker, where nobody sees them; the driver's commit names the parts
of the tasks that count, and the broker stores these, all or none, once for each sink and batch. A stream's
sink is the query's id, which is in its checkpoint, and its batches are Spark's: so a batch that is tried
again, whatever its rows' order is then, is stored once. docs/lake.md, "The sink", has the protocol.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from lakemq.contract import routes
from lakemq.contract.forms import ARROW
from lakemq.jobs.errors import BrokerUnavailable
from lakemq.jobs.log_client import LogClient, find_brokers
from lakemq.jobs.sink.options import SinkOptions
from lakemq.model.columns import TIMES
from lakemq.model.errors import LakemqError

pc: Any = pyarrow.compute  # its functions are made at run time, unknown to type checkers

PART_BYTES = 8 * 1024 * 1024
PART_ROWS = 200_000
QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
"""Local properties that Spark sets for the tasks of a stream's batch."""
ABORT_RETRY_S = 3.0


@dataclass
class Staged(WriterCommitMessage):
    """The parts of one task, in the order of its rows."""

    sink: str
    batch: int
    parts: list[str]


class BatchSink(DataSourceArrowWriter):
    """`df.write`: one batch, of the sink and the number that are given, or of one of its own."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._once = options.sink is None
        self._sink = options.sink or f"write-{uuid.uuid4().hex}"
        self._batch = options.batch or 0

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        return stage(self._options, self._sink, self._batch, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        commit(self._options, self._sink, self._batch, _staged(messages), once=self._once)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        if self._once:
            # Tasks that were killed have staged parts of which Spark has no message, or are about to.
            _abort(self._options, self._sink, self._batch, {"over": True})
        else:
            abort(self._options, _staged(messages))


class StreamSink(DataSourceStreamArrowWriter):
    """`df.writeStream`: the batches of a query."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        context = TaskContext.get()
        query, batch = (context.getLocalProperty(name) if context else None for name in (QUERY_ID, BATCH_ID))
        if query is None or batch is None:
            raise LakemqError(
                "this task says neither of which query nor of which batch it is: its rows can't be stored"
            )
        return stage(self._options, f"query-{query}", int(batch), iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        staged = _staged(messages)
        if any(each.batch != batchId for each in staged):
            raise LakemqError(f"a task staged rows of another batch than {batchId}")
        if staged:
            commit(self._options, staged[0].sink, batchId, staged, once=False)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        abort(self._options, _staged(messages))


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    return [message for message in messages if isinstance(message, Staged)]


def _connect(options: SinkOptions, retry_s: float) -> LogClient:
    """A client of the broker, which goes on where name servers say that it is led from by then."""

    def elsewhere() -> str | None:
        with suppress(LakemqError):
            return find_brokers(options.nameservers, 0).get(options.name)
        return None

    return LogClient(options.broker, retry_s, elsewhere=elsewhere if options.name else None, token=options.token)


# In a task --------------------------------------------------------------------------------------------


def stage(options: SinkOptions, sink: str, batch: int, batches: Iterator[pa.RecordBatch]) -> Staged:
    """Send a task's rows to the broker, in parts of about `PART_BYTES`. Their names are of this attempt
    alone: what another attempt has staged is never mixed with it."""
    client = _connect(options, options.retry_s)
    attempt = uuid.uuid4().hex
    query = {"topic": options.topic} | ({"group": options.group} if options.group else {})
    staged = Staged(sink, batch, [])
    try:
        for content in _contents(batches):
            part = f"{attempt}-{len(staged.parts)}"
            client.send_bytes(routes.STAGE_PART.at(sink, batch, part), content, ARROW, query)
            staged.parts.append(part)
    finally:
        client.close()
    return staged


def _contents(batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    """The rows as Arrow streams, each large enough to be worth a frame and small enough for a request."""
    waiting: list[pa.RecordBatch] = []
    size = rows = 0
    for batch in batches:
        for piece in _pieces(to_request(batch)):
            piece_bytes = pa.ipc.get_record_batch_size(piece)
            if waiting and (size + piece_bytes > PART_BYTES or rows + piece.num_rows > PART_ROWS):
                yield _stream(waiting)
                waiting, size, rows = [], 0, 0
            waiting.append(piece)
            size += piece_bytes
            rows += piece.num_rows
    if waiting:
        yield _stream(waiting)


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in halves of halves, none above `PART_BYTES` unless it is one row."""
    if not batch.num_rows:
        return
    if batch.num_rows == 1 or (batch.num_rows <= PART_ROWS and pa.ipc.get_record_batch_size(batch) <= PART_BYTES):
        yield batch
        return
    middle = batch.num_rows // 2
    yield from _pieces(batch.slice(0, middle))
    yield from _pieces(batch.slice(middle))


def _stream(batches: list[pa.RecordBatch]) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def to_request(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Spark's rows with the names and types of a request: times are milliseconds since 1970 there."""
    names = [TIMES.get(name, name) for name in batch.schema.names]
    columns = [
        pc.divide(column.cast(pa.timestamp("us", "UTC")).cast(pa.int64()), 1_000) if name in TIMES else column
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=names)


# On the driver ----------------------------------------------------------------------------------------


def commit(options: SinkOptions, sink: str, batch: int, staged: Sequence[Staged], once: bool) -> dict[str, Any]:
    """Make all parts visible; returns what the broker said. A batch that was committed before is not again.
    Raises `LakemqError` when the topic was deleted meanwhile: what is lost with it is lost aloud."""
    body = {"parts": [part for each in staged for part in each.parts], "progress": options.progress, "once": once}
    client = _connect(options, options.retry_s)
    try:
        done = client.send(routes.COMMIT_BATCH.at(sink, batch), body)
    finally:
        client.close()
    if done["dropped"]:
        raise LakemqError(f"{done['dropped']} messages were dropped: topic {options.topic!r} was deleted meanwhile")
    return done


def abort(options: SinkOptions, staged: Sequence[Staged]) -> None:
    """Give the parts of a batch's tasks up."""
    if staged:
        parts = [part for each in staged for part in each.parts]
        _abort(options, staged[0].sink, staged[0].batch, {"parts": parts})


def _abort(options: SinkOptions, sink: str, batch: int, body: dict[str, Any]) -> None:
    """A broker that can't be told gives the parts up by itself, a day later."""
    client = _connect(options, ABORT_RETRY_S)
    try:
        client.send(routes.ABORT_BATCH.at(sink, batch), body)
    except BrokerUnavailable:
        return
    finally:
        client.close()
