"""`application/vnd.apache.arrow.stream`: many messages as the columns of one record batch.

Malformed IPC can make a reader leave its buffers. So a stream is measured first
(`arrow_stream.py`), then read, then validated in full by Arrow, before any value is touched.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute

from lakemq.gateway.decode.arrow_schema import Kind, unknown_column
from lakemq.gateway.decode.arrow_stream import Measured, measure_stream
from lakemq.gateway.decode.arrow_values import check_values
from lakemq.gateway.decode.flatbuffer import Malformed
from lakemq.gateway.decode.limits import AT_ONCE_BYTES_MAX, AT_ONCE_VALUES_MAX, Limits, TakesLong
from lakemq.model.columns import REQUEST, SINK
from lakemq.model.errors import InvalidArrow, MessageTooLarge

# Its functions are made as it is imported: no type checker sees them.
pc: Any = pyarrow.compute

# Misaligned buffers are copied: a loop that Arrow's compiler made wide may not take them.
_OPTIONS = pa.ipc.IpcReadOptions(ensure_alignment=pa.ipc.Alignment.DataTypeSpecific, use_threads=False)
_IN_COLUMN = re.compile(r"In column ([0-9]): (.*)", re.DOTALL)
_FAULTS = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, MemoryError)


class ArrowRows(NamedTuple):
    """The messages of an Arrow stream, fully validated.

    `batch` has exactly the columns of `lakemq.model.columns.REQUEST` (a sink's: `SINK`) that were present,
    in its order and types; `body` is never null. Where one batch came in, it shares the request's bytes.
    """

    batch: pa.RecordBatch


def decode_arrow(body: bytes, limits: Limits, known: pa.Schema = REQUEST) -> ArrowRows:
    """The rows of a stream, 1 to 1,000,000, with columns of `known`; raises `InvalidArrow`, `MessageTooLarge` or
    `TakesLong`."""
    try:
        measured = measure_stream(body, limits.request_bytes_max)
        for name in measured.layout.columns:
            if name not in known.names:
                raise unknown_column(name, known.names)
    except Malformed as fault:
        raise InvalidArrow(str(fault)) from None
    if limits.at_once and _takes_long(measured):
        raise TakesLong
    try:
        batches = _read_batches(body, measured, limits)
        batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        check_values(batch, limits)
    except _FAULTS as fault:
        raise InvalidArrow(f"the stream can't be read: {_one_line(fault)}") from None
    return ArrowRows(batch)


def _takes_long(measured: Measured) -> bool:
    """Views may show the same bytes many times: how many bytes that are is known too late."""
    return (
        measured.values > AT_ONCE_VALUES_MAX
        or measured.inflated_bytes > AT_ONCE_BYTES_MAX
        or any(node.kind is Kind.VIEW for node in measured.layout.nodes)
    )


def _read_batches(body: bytes, measured: Measured, limits: Limits) -> list[Any]:
    """The stream's batches, validated, then cast to the columns of a request."""
    room = limits.request_bytes_max
    batches: list[Any] = []
    with pa.ipc.open_stream(pa.py_buffer(body), options=_OPTIONS) as reader:
        for _ in range(measured.batches):
            batch = reader.read_next_batch()
            _validate(batch, measured.layout.columns)
            if batch.num_rows:
                room -= _viewed_bytes(batch)
                if room < 0:
                    raise MessageTooLarge(f"more than {limits.request_bytes_max} bytes of text")
                batches.append(_cast(batch))
    return batches


def _validate(batch: Any, names: tuple[str, ...]) -> None:
    try:
        batch.validate(full=True)
    except pa.ArrowException as fault:
        found = _IN_COLUMN.match(str(fault))
        if found is None:
            raise
        where, what = names[int(found[1])], _one_line(found[2])
        raise InvalidArrow(f"column {where!r}: {what}") from None


def _viewed_bytes(batch: Any) -> int:
    """The bytes that all views of a batch show: many views may show the same bytes."""
    return sum(_viewed_in(column) for column in batch.columns)


def _viewed_in(column: Any) -> int:
    kind = column.type
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return _viewed_lengths(column)
    if pa.types.is_map(kind):
        return _viewed_in(column.keys) + _viewed_in(column.items)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _viewed_in(column.values)
    return 0


def _viewed_lengths(column: Any) -> int:
    """The sum of the lengths that a column's views begin with: Arrow has no kernel for it.

    Arrow validates no views of null slots, but its casts follow them: so those are validated
    here too, as if no slot were null.
    """
    buffers = [None, *column.buffers()[1:]]
    size, at = len(column), column.offset
    pa.Array.from_buffers(column.type, size, buffers, null_count=0, offset=at).validate(full=True)
    words = pa.Array.from_buffers(pa.int32(), 4 * size, [None, buffers[1]], offset=4 * at)
    lengths = pc.list_element(pa.FixedSizeListArray.from_arrays(words, 4), 0)
    return pc.sum(lengths).as_py() or 0


def _cast(batch: Any) -> Any:
    """The batch with its columns in the order and types of `SINK`, which begins with `REQUEST`."""
    schema = request_schema(frozenset(batch.schema.names))
    columns: list[Any] = []
    for field in schema:
        column = batch.column(field.name)
        # With metadata, names of nested fields count too: rows of all requests are to be alike.
        if not column.type.equals(field.type, check_metadata=True):
            column = _cast_column(field, column)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast_column(field: Any, column: Any) -> Any:
    try:
        return column.cast(field.type)
    except pa.ArrowException as fault:
        raise InvalidArrow(f"column {field.name!r}: {_one_line(fault)}") from None


@lru_cache(maxsize=256)
def request_schema(names: frozenset[str]) -> pa.Schema:
    """Of the rows of a request that has these columns."""
    return pa.schema([field for field in SINK if field.name in names])


def _one_line(fault: object) -> str:
    return " ".join(str(fault).split())[:300]
