"""Arrow IPC streams for the tests, as pyarrow writes them."""

from __future__ import annotations

import string
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from lakemq.gateway.decode import Limits
from lakemq.model.columns import REQUEST
from lakemq.model.message_columns import TTL_MS_MAX

ARROW = "application/vnd.apache.arrow.stream"
LIMITS = Limits(message_bytes_max=4 * 1024 * 1024, request_bytes_max=64 * 1024 * 1024)
TIME_MS_MAX = 2**53


def write_stream(table: pa.Table, compression: str | None = None, rows: int | None = None) -> bytes:
    """The stream of `table`, in batches of at most `rows`."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table, max_chunksize=rows)
    return sink.getvalue().to_pybytes()


def bodies(*values: bytes | str | None) -> pa.Table:
    """A table of bodies alone."""
    return pa.table({"body": pa.array(values, pa.binary())})


def with_column(name: str, values: list[Any], kind: pa.DataType | None = None) -> bytes:
    """The stream of a column next to as many bodies."""
    kind = REQUEST.field(name).type if kind is None else kind
    body = pa.array([b"x"] * len(values), pa.binary())
    return write_stream(pa.table({"body": body, name: pa.array(values, kind)}))


def replaced(stream: bytes, old: bytes, new: bytes, count: int = 1) -> bytes:
    """The stream with bytes, which must be there exactly `count` times, exchanged."""
    assert stream.count(old) == count, f"{old!r} is there {stream.count(old)} times"
    assert len(old) == len(new)
    return stream.replace(old, new)


_NAMES = string.ascii_letters + string.digits + " é€😀\x00"
_texts = st.text(_NAMES, min_size=1, max_size=12)
_tags = st.text(string.ascii_letters + "é€😀|", min_size=1, max_size=12).filter(lambda tag: "||" not in tag)
_times = st.integers(0, TIME_MS_MAX)

VALUES: dict[str, st.SearchStrategy[Any]] = {
    "body": st.binary(max_size=40),
    "tag": st.none() | _tags,
    "keys": st.none() | st.lists(_texts, max_size=3),
    "properties": st.none() | st.dictionaries(_texts, st.text(max_size=8), max_size=3),
    "ordering_key": st.none() | _texts,
    "queue_id": st.none() | st.integers(0, 65_534),
    "deliver_at_ms": st.none() | _times,
    "born_time_ms": st.none() | _times,
    "ttl_ms": st.none() | st.integers(1, TTL_MS_MAX),
    "priority": st.none() | st.integers(0, 65_534),
}
"""Valid values of each column, as Python has them."""

_text_types = st.sampled_from([pa.string(), pa.large_string(), pa.string_view()])


def _map_type(types: tuple[pa.DataType, pa.DataType]) -> pa.DataType:
    return pa.map_(*types)


TYPES: dict[str, st.SearchStrategy[pa.DataType]] = {
    "body": st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()]),
    "tag": _text_types,
    "keys": st.builds(pa.list_, _text_types) | st.builds(pa.large_list, _text_types),
    "properties": st.tuples(_text_types, _text_types).map(_map_type),
    "ordering_key": _text_types,
    "queue_id": st.sampled_from([pa.uint16(), pa.int32(), pa.int64(), pa.uint64()]),
    "deliver_at_ms": st.sampled_from([pa.int64(), pa.uint64()]),
    "born_time_ms": st.sampled_from([pa.int64(), pa.uint64()]),
    "ttl_ms": st.sampled_from([pa.int64(), pa.uint64()]),
    "priority": st.sampled_from([pa.uint16(), pa.int32(), pa.int64(), pa.uint64()]),
}
"""The types in which each column is taken."""


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Tables of valid messages: any columns beside `body`, any order, any type that is taken."""
    others = [name for name in REQUEST.names if name != "body"]
    names = ["body", *draw(st.lists(st.sampled_from(others), unique=True))]
    rows = draw(st.integers(1, 8))
    columns: dict[str, pa.Array] = {}
    for name in draw(st.permutations(names)):
        values = draw(st.lists(VALUES[name], min_size=rows, max_size=rows))
        if name == "properties":
            values = [None if value is None else list(value.items()) for value in values]
        columns[name] = pa.array(values, draw(TYPES[name]))
    return pa.table(columns)
