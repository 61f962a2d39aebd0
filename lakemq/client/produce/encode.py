"""A batch as a request's body, and the answer as the outcome of each message.

Arrow wherever it suffices; JSON for delays, which Arrow can't express, and where the answer has to give the place of
each message separately.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, Literal, NamedTuple

import orjson
import pyarrow as pa

from lakemq.client.message import encode_body
from lakemq.client.outgoing import MessageFields, SendReceipt
from lakemq.client.produce.batch import Batch, Outcome, delay_fields
from lakemq.client.produce.columns import binary, lists, maps, numbers, texts
from lakemq.client.transport import Piece
from lakemq.contract.forms import ARROW, JSON
from lakemq.contract.headers import SEND_IDS
from lakemq.model.columns import REQUEST
from lakemq.model.errors import InvalidRequest, LakemqError
from lakemq.model.message_columns import GIVEN, Column, Kind
from lakemq.model.send_ids import SEND_ID, SendIds
from lakemq.model.trace_parent import TRACE_PARENT, trace_parent_of

Compression = Literal["lz4", "zstd"]
COMPRESSED_FROM_BYTES = 4_096
"""A request is compressed when a body in it is as large: below that it isn't worth the time."""
_GZIP_LEVEL = 1
_STREAM_END_BYTES = 64
_FAULTS = (pa.ArrowException, ValueError, TypeError, OverflowError)


class Encoded(NamedTuple):
    """A request's body."""

    pieces: list[Piece]
    content_type: str
    headers: dict[str, str]


def encode(
    batch: Batch,
    queue_id: int | None,
    as_json: bool,
    compression: Compression | None,
    send_ids: SendIds | None = None,
) -> Encoded:
    """The batch as a body; `queue_id` is where all of it goes, `send_ids` is a property that each message gets.
    Raises `InvalidRequest` for values that the types don't allow."""
    large = compression is not None and max(map(len, batch.bodies)) >= COMPRESSED_FROM_BYTES
    try:
        if as_json:
            encoded = _encode_json(batch, queue_id, large, send_ids)
        else:
            encoded = _encode_arrow(batch, queue_id, compression if large else None, send_ids)
    except _FAULTS as fault:
        raise InvalidRequest(f"a message can't be sent: {fault}") from None
    return _traced(encoded, batch)


def _traced(encoded: Encoded, batch: Batch) -> Encoded:
    """The same, in the trace of the first message, which the broker then knows of before it reads any. Only if all have
    one: else it would be that of the others too."""
    properties = batch.columns.get("properties", {})
    first = properties.get(0)
    parent = first.get(TRACE_PARENT) if isinstance(first, dict) else None
    if not isinstance(parent, str) or len(properties) < len(batch.bodies) or trace_parent_of(parent) is None:
        return encoded
    if not all(each and TRACE_PARENT in each for each in properties.values()):
        return encoded
    return encoded._replace(headers={**encoded.headers, TRACE_PARENT: parent})


# Arrow ---------------------------------------------------------------------------------------


def _encode_arrow(
    batch: Batch, queue_id: int | None, compression: Compression | None, send_ids: SendIds | None
) -> Encoded:
    headers: dict[str, str] = {}
    if send_ids is not None and "properties" not in batch.columns:
        # Most messages have no others: the broker writes them down by itself, and has none to read.
        headers[SEND_IDS], send_ids = str(send_ids), None
    rows = _make_rows(batch, queue_id, send_ids)
    if compression is None:
        # The size is known, so nothing is copied while the buffer grows.
        size = pa.ipc.get_record_batch_size(rows) + rows.schema.serialize().size + _STREAM_END_BYTES
        buffer = pa.allocate_buffer(size)
        sink = pa.FixedSizeBufferWriter(buffer)
        _write(rows, sink, None)
        return Encoded([memoryview(buffer)[: sink.tell()]], ARROW, headers)
    growing = pa.BufferOutputStream()
    _write(rows, growing, compression)
    return Encoded([memoryview(growing.getvalue())], ARROW, headers)


def _write(rows: Any, sink: Any, compression: Compression | None) -> None:
    options = pa.ipc.IpcWriteOptions(compression=compression, use_threads=False)
    with pa.ipc.new_stream(sink, rows.schema, options=options) as writer:
        writer.write_batch(rows)


def _make_rows(batch: Batch, queue_id: int | None, send_ids: SendIds | None) -> Any:
    count = len(batch.bodies)
    columns: dict[str, Any] = {"body": binary(batch.bodies)}
    for name, make in _COLUMNS.items():
        values = batch.columns.get(name)
        if name == "properties" and send_ids is not None:
            columns[name] = make(_with_send_ids(batch, send_ids))
        elif values is not None and (name != "queue_id" or queue_id is None):
            columns[name] = make([values.get(number) for number in range(count)])
    if queue_id is not None:
        columns["queue_id"] = numbers([queue_id] * count, pa.int32())
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=_schema_of(frozenset(columns)))


@lru_cache(256)
def _schema_of(names: frozenset[str]) -> pa.Schema:
    return pa.schema([field for field in REQUEST if field.name in names])


def _with_send_ids(batch: Batch, send_ids: SendIds) -> list[dict[str, str]]:
    """Each message's properties and its name; one that came with it was another message's."""
    given = batch.columns.get("properties", {})
    return [{**(given.get(number) or {}), SEND_ID: send_ids.of(number)} for number in range(len(batch.bodies))]


def _key_list(keys: Sequence[str] | str | None) -> list[str] | None:
    return [keys] if isinstance(keys, str) else list(keys) if keys is not None else None


def _key_lists(values: list[Any]) -> Any:
    return lists([_key_list(value) for value in values])


def _maker(column: Column) -> Callable[[list[Any]], Any]:
    if column.kind is Kind.TEXTS:
        return _key_lists
    if column.kind is Kind.MAP:
        return maps
    if column.kind is Kind.TEXT:
        return texts
    return partial(numbers, kind=REQUEST.field(column.name).type)


_COLUMNS: dict[str, Callable[[list[Any]], Any]] = {
    column.name: _maker(column) for column in GIVEN if column.name in MessageFields.__annotations__
}
"""How each field is made to a column, in the order of `REQUEST`. Delays are none: they go as JSON."""


def read_ranges(broker: str, topic: str, count: int, answer: Any) -> Outcome:
    """What the answer to a batch says that went to one queue."""
    ranges: Sequence[Any] = answer["ranges"]
    if len(ranges) != 1 or answer["count"] != count:
        raise LakemqError(f"the broker {broker!r} answered {len(ranges)} ranges for a batch to one queue")
    queue_id, first_offset = ranges[0]["queue_id"], ranges[0]["first_queue_offset"]
    first_position, store_time_ms = answer["first_position"], answer["store_time_ms"]
    prefix: str = answer["message_id_prefix"]

    def outcome(number: int) -> SendReceipt:
        position = first_position + number
        offset = first_offset + number
        return SendReceipt(f"{prefix}{position}", broker, topic, queue_id, offset, position, store_time_ms)

    return outcome


# JSON ----------------------------------------------------------------------------------------


def _encode_json(batch: Batch, queue_id: int | None, large: bool, send_ids: SendIds | None) -> Encoded:
    messages = [_message(batch, number) for number in range(len(batch.bodies))]
    if send_ids is not None:
        for message, properties in zip(messages, _with_send_ids(batch, send_ids), strict=True):
            message["properties"] = properties
    if queue_id is not None:
        for message in messages:
            message["queue_id"] = queue_id
    return _zipped(orjson.dumps({"messages": messages}), large)


def encode_one(batch: Batch, compression: Compression | None) -> Encoded:
    """The only message of a batch, where one is asked for. Raises `InvalidRequest`."""
    try:
        body = orjson.dumps(_message(batch, 0))
    except _FAULTS as fault:
        raise InvalidRequest(f"the message can't be sent: {fault}") from None
    large = compression is not None and len(batch.bodies[0]) >= COMPRESSED_FROM_BYTES
    return _traced(_zipped(body, large), batch)


def _zipped(body: bytes, large: bool) -> Encoded:
    if not large:
        return Encoded([body], JSON, {})
    return Encoded([gzip.compress(body, _GZIP_LEVEL)], JSON, {"Content-Encoding": "gzip"})


def _message(batch: Batch, number: int) -> dict[str, Any]:
    fields = batch.fields(number)
    message: dict[str, Any] = encode_body(batch.bodies[number])
    message |= {name: value for name, value in fields.items() if name in _COLUMNS}
    if "keys" in fields:
        message["keys"] = _key_list(fields["keys"])
    if "properties" in fields:
        message["properties"] = dict(fields["properties"] or {})
    return message | delay_fields(fields)


def read_messages(broker: str, topic: str, count: int, answer: Any) -> Outcome:
    """What the answer to a request in JSON says."""
    entries: Sequence[Mapping[str, Any]] = answer["messages"]
    if len(entries) != count:
        raise LakemqError(f"the broker {broker!r} answered {len(entries)} of {count} messages")
    receipts = [
        SendReceipt(
            entry["message_id"],
            broker,
            topic,
            entry["queue_id"],
            entry["queue_offset"],
            entry["position"],
            entry["store_time_ms"],
        )
        for entry in entries
    ]
    return receipts.__getitem__
