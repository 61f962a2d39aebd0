"""The schema message of an Arrow IPC stream, read without Arrow.

Only the types that a message's columns may have are let through, so that what a reader does with
the rest never matters: no dictionaries, unions, run-end encoding or extension types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from lakemq.gateway.decode.flatbuffer import Malformed, Table
from lakemq.model.message_columns import GIVEN_TO_SINK
from lakemq.model.message_columns import Kind as ColumnKind

U8 = Struct("<B")
I16 = Struct("<h")
I32 = Struct("<i")


class Kind(Enum):
    """How an array of a type lies in a record batch."""

    NULL = "null"
    INTEGER = "integer"
    TEXT = "text"
    VIEW = "view"
    LIST = "list"
    STRUCT = "struct"


class Node(NamedTuple):
    """One array of the record batches: a column, or what a column is made of.

    `width` is the size of a value (INTEGER) or of an offset (TEXT, LIST), in bytes.
    """

    kind: Kind
    width: int
    column: str
    nested: bool


class Layout(NamedTuple):
    """The arrays of a record batch, in the order of its field nodes."""

    columns: tuple[str, ...]
    nodes: tuple[Node, ...]


class _Type(NamedTuple):
    name: str
    kind: Kind
    width: int = 0


_NULL = _Type("null", Kind.NULL)
_INTEGER = _Type("int", Kind.INTEGER)
_BINARY = {
    4: _Type("binary", Kind.TEXT, 4),
    19: _Type("large_binary", Kind.TEXT, 8),
    23: _Type("binary_view", Kind.VIEW, 16),
}
_STRING = {
    5: _Type("string", Kind.TEXT, 4),
    20: _Type("large_string", Kind.TEXT, 8),
    24: _Type("string_view", Kind.VIEW, 16),
}
_LIST = {12: _Type("list", Kind.LIST, 4), 21: _Type("large_list", Kind.LIST, 8)}
_MAP = {17: _Type("map", Kind.LIST, 4)}
_STRUCT = {13: _Type("struct", Kind.STRUCT)}
_INTEGERS = {2: _INTEGER}
_NULLS = {1: _NULL}

_Visit = Callable[[Table, str, bool], list[Node]]


_REMEMBERED_BYTES_MAX = 16_384


def read_layout(metadata: bytes, header_at: int) -> Layout:
    """The layout that the schema at `header_at` of `metadata` describes; raises `Malformed`."""
    if len(metadata) <= _REMEMBERED_BYTES_MAX:
        return _remembered_layout(metadata, header_at)
    return _read_layout(metadata, header_at)


@lru_cache(maxsize=64)
def _remembered_layout(metadata: bytes, header_at: int) -> Layout:
    """Streams of one writer have one schema, byte for byte: so the last ones are remembered."""
    return _read_layout(metadata, header_at)


def _read_layout(metadata: bytes, header_at: int) -> Layout:
    schema = Table(metadata, header_at)
    if schema.scalar(0, I16) != 0:
        raise Malformed("the stream is big-endian")
    columns: list[str] = []
    nodes: list[Node] = []
    for field in schema.tables(1, 64):
        name = field.string(0)
        if name not in _COLUMNS:
            raise unknown_column(name, _COLUMNS)
        if name in columns:
            raise Malformed(f"column {name!r} is there twice")
        columns.append(name)
        nodes += _COLUMNS[name](field, name, False)
    if "body" not in columns:
        raise Malformed("column 'body' is missing")
    return Layout(tuple(columns), tuple(nodes))


def unknown_column(name: str, known: Iterable[str]) -> Malformed:
    """A request's stream has a column that isn't one of those that are known there."""
    return Malformed(f"unknown column {name[:100]!r}; known are {', '.join(known)}")


def _type_of(field: Table, column: str, allowed: dict[int, _Type]) -> _Type:
    if field.table(4) is not None:
        raise Malformed(f"column {column!r} is dictionary-encoded, which is not taken")
    if _is_extension(field):
        raise Malformed(f"column {column!r} has an extension type, which is not taken")
    found = allowed.get(field.scalar(2, U8))
    if found is None:
        names = " or ".join(sorted(kind.name for kind in allowed.values()))
        raise Malformed(f"column {column!r} has another type than {names}")
    return found


def _is_extension(field: Table) -> bool:
    return any(entry.string(0) == "ARROW:extension:name" for entry in field.tables(6, 64))


def _flat(*allowed: dict[int, _Type]) -> _Visit:
    """Columns of text, or of nulls alone, which have no children."""
    types = {number: kind for group in allowed for number, kind in group.items()}

    def visit(field: Table, column: str, nested: bool) -> list[Node]:
        found = _type_of(field, column, types)
        _children(field, column, 0)
        return [Node(found.kind, found.width, column, nested)]

    return visit


def _integer(field: Table, column: str, nested: bool) -> list[Node]:
    found = _type_of(field, column, _INTEGERS | _NULLS)
    _children(field, column, 0)
    if found.kind is Kind.NULL:
        return [Node(Kind.NULL, 0, column, nested)]
    form = field.table(3)
    bits = form.scalar(0, I32) if form else 0
    if bits not in (8, 16, 32, 64):
        raise Malformed(f"column {column!r} has integers of {bits} bits")
    return [Node(Kind.INTEGER, bits // 8, column, nested)]


def _keys(field: Table, column: str, nested: bool) -> list[Node]:
    found = _type_of(field, column, _LIST | _NULLS)
    if found.kind is Kind.NULL:
        return _flat(_NULLS)(field, column, nested)
    (item,) = _children(field, column, 1)
    return [Node(Kind.LIST, found.width, column, nested), *_ITEM(item, column, True)]


def _properties(field: Table, column: str, nested: bool) -> list[Node]:
    found = _type_of(field, column, _MAP | _NULLS)
    if found.kind is Kind.NULL:
        return _flat(_NULLS)(field, column, nested)
    (entries,) = _children(field, column, 1)
    _type_of(entries, column, _STRUCT)
    name, value = _children(entries, column, 2)
    return [
        Node(Kind.LIST, found.width, column, nested),
        Node(Kind.STRUCT, 0, column, True),
        *_TEXT(name, column, True),
        *_ITEM(value, column, True),
    ]


def _children(field: Table, column: str, count: int) -> list[Table]:
    children = field.tables(5, 64)
    for child in children:
        child.string(0)  # its name becomes a str somewhere: UTF-8 or nothing
    if len(children) != count:
        raise Malformed(f"column {column!r} has a type of {len(children)} parts, not {count}")
    return children


_TEXT = _flat(_STRING)
_ITEM = _flat(_STRING, _NULLS)
_VISITS: dict[ColumnKind, _Visit] = {
    ColumnKind.BYTES: _flat(_BINARY, _STRING),
    ColumnKind.TEXT: _ITEM,
    ColumnKind.TEXTS: _keys,
    ColumnKind.MAP: _properties,
    ColumnKind.INT: _integer,
    ColumnKind.LONG: _integer,
    ColumnKind.TIME: _integer,
}
_COLUMNS: dict[str, _Visit] = {column.name: _VISITS[column.kind] for column in GIVEN_TO_SINK}
