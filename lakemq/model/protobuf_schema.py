"""Protobuf's descriptors (google/protobuf/descriptor.proto) as columns, and which change of a message is compatible.

A schema is JSON: `message`, the full name of a message, and `descriptor_set`, a FileDescriptorSet in base64 that has
it, as `protoc --include_imports --descriptor_set_out` makes one. No library reads it: a broker needs none for this, and
everything that a set or a body may hold is bounded before it is built.

What has itself in it, has no fields, or is a group is no column: it is left out, and named. Fields whose presence is
tracked are NULL where they are absent; others are zero or empty, as the language guide has it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from lakemq.model.column_type import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TIMESTAMP,
    ColumnField,
    ColumnType,
    array_of,
    decimal,
    map_of,
    struct_of,
)
from lakemq.model.errors import InvalidRequest
from lakemq.model.fit import Misfit
from lakemq.model.json_schema import DEPTH_MAX, NODES_MAX, SYMBOL_BYTES_MAX, check_names
from lakemq.model.protobuf_features import IMPLICIT, LEGACY_REQUIRED, Features, features_of
from lakemq.model.protobuf_wire import Fields

MESSAGES_SHOWN = 20
LEFT_OUT_MAX = 50
_SHOWN = 60
_REQUIRED, _REPEATED = 2, 3
_GROUP, _MESSAGE, _ENUM = 10, 11, 14
SCALARS = {
    1: "double", 2: "float", 3: "int64", 4: "uint64", 5: "int32", 6: "fixed64", 7: "fixed32", 8: "bool", 9: "string",
    12: "bytes", 13: "uint32", 15: "sfixed32", 16: "sfixed64", 17: "sint32", 18: "sint64",
}  # fmt: skip
_COLUMNS = {
    "double": ColumnType(DOUBLE),
    "float": ColumnType(FLOAT),
    "bool": ColumnType(BOOLEAN),
    "string": ColumnType(STRING),
    "bytes": ColumnType(BINARY),
    "enum": ColumnType(STRING),
    "timestamp": ColumnType(TIMESTAMP),
    "duration": decimal(21, 9),
    **dict.fromkeys(("int32", "sint32", "sfixed32"), ColumnType(INT)),
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint32", "fixed32"), ColumnType(BIGINT)),
    **dict.fromkeys(("uint64", "fixed64"), decimal(20, 0)),
}
"""By a kind. A duration is in seconds."""
WIDER = {"int32": "int64", "sint32": "sint64", "uint32": "uint64"}
"""What also reads what is written as that."""
_WELL_KNOWN = {".google.protobuf.Timestamp": "timestamp", ".google.protobuf.Duration": "duration"}
_MAP_KEYS = frozenset(SCALARS.values()) - {"double", "float", "bytes"}
_WITH_PARTS = ("message", "wrapper", "timestamp", "duration")
_WRAPPERS = {
    f".google.protobuf.{each}Value"
    for each in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}


class ProtoMessage(NamedTuple):
    """A message. `columns`: a STRUCT of its fields. `left_out`: message or group, by the numbers of fields that are no
    columns."""

    columns: ColumnType
    fields: tuple[ProtoField, ...]
    left_out: Mapping[int, str] = MappingProxyType({})


class ProtoField(NamedTuple):
    """A field. `kind`: a scalar's name, or enum, message, map, timestamp, duration or wrapper. `column`: of one value.
    `has_presence`: it may be absent, which isn't zero. `oneof`: only one field of that number is there. `message`: of a
    message or a wrapper; of a map its entry. `symbols`: an enum's names, by number; `symbol_bytes`: the longest's."""

    number: int
    name: str
    kind: str
    column: ColumnType
    is_repeated: bool = False
    is_required: bool = False
    has_presence: bool = False
    oneof: int | None = None
    message: ProtoMessage | None = None
    symbols: Mapping[int, str] = MappingProxyType({})
    symbol_bytes: int = 0


def parse_protobuf_schema(document: Any) -> tuple[ProtoMessage, tuple[str, ...]]:
    """What the document says, and what of it is no column. Raises `InvalidRequest`."""
    said = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
    name, content = said.get("message"), said.get("descriptor_set")
    if len(said) != 2 or not isinstance(name, str) or not isinstance(content, str):
        raise InvalidRequest(
            "a protobuf schema is an object of two: message, its full name, and descriptor_set, a FileDescriptorSet in "
            "base64"
        )
    try:
        return _Types(bytes_of_set(content)).root(name.removeprefix("."))
    except Misfit as misfit:
        raise InvalidRequest(f"descriptor_set is no FileDescriptorSet: {misfit}") from None


def bytes_of_set(content: str) -> bytes:
    """A schema's `descriptor_set`. Raises `InvalidRequest`."""
    try:
        return base64.b64decode(content, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequest("descriptor_set is no base64") from None


def only_message(descriptor_set: bytes) -> str:
    """The full name of the one message of the set's last file, which is the one that `protoc` was given. Raises
    `InvalidRequest` where there are several, or none."""
    try:
        files = Fields(descriptor_set).all(1)
        last = files[-1] if files else Fields(b"")
        names = [".".join(filter(None, (last.text(2), each.text(1)))) for each in last.all(4)]
    except Misfit as misfit:
        raise InvalidRequest(f"it is no FileDescriptorSet: {misfit}") from None
    if len(names) != 1:
        shown = f"which of these is it: {', '.join(names[:MESSAGES_SHOWN])}" if names else "its last file has none"
        raise InvalidRequest(f"say the message's full name; {shown}")
    return names[0]


class _Declared(NamedTuple):
    """A message of the set: its fields are read once, however many others are of it. `unreadable`: why its file can't
    be read; empty: it can. `is_map`: it is an entry of one."""

    fields: list[_Member]
    unreadable: str
    is_map: bool


class _Member(NamedTuple):
    """A field as it is declared, and what holds of it."""

    said: Fields
    features: Features


def _members(message: Fields, within: Features) -> list[_Member]:
    oneofs = [within.in_oneof(each) for each in message.all(8)]
    found: list[_Member] = []
    for said in message.all(2):
        at = said.number(9)
        around = oneofs[at] if at is not None and 0 <= at < len(oneofs) else within
        found.append(_Member(said, around.of_field(said)))
    return found


class _Types:
    """Those of a set, by full name with the dot before it. Raises `Misfit` where it is none."""

    def __init__(self, descriptor_set: bytes) -> None:
        self._messages: dict[str, _Declared] = {}
        self._enums: dict[str, Fields] = {}
        self._symbols_of: dict[str, tuple[Mapping[int, str], int]] = {}
        self._left_out: list[str] = []
        self._nodes = 0
        for file in Fields(descriptor_set).all(1):
            package = file.text(2)
            self._declare(file, f".{package}" if package else "", features_of(file), 4, 5, 0)

    def _declare(
        self, within: Fields, scope: str, around: Features | str, messages: int, enums: int, depth: int
    ) -> None:
        if depth > DEPTH_MAX * 2:
            raise Misfit("its messages are declared too deep within each other")
        for each in within.all(enums):
            self._enums[f"{scope}.{each.text(1)}"] = each
        for each in within.all(messages):
            name = f"{scope}.{each.text(1)}"
            is_map = any(options.number(7) for options in each.all(7))
            if isinstance(around, str):
                inner, declared = around, _Declared([], around, is_map)
            else:
                inner = around.in_message(each)
                declared = _Declared(_members(each, inner), "", is_map)
            self._messages[name] = declared
            self._declare(each, name, inner, 3, 4, depth + 1)

    def root(self, name: str) -> tuple[ProtoMessage, tuple[str, ...]]:
        full = f".{name}"
        if full not in self._messages:
            there = ", ".join(sorted(each[1:] for each in self._messages)[:MESSAGES_SHOWN])
            raise InvalidRequest(f"descriptor_set has no message {name[:_SHOWN]!r}; there are: {there[:500] or 'none'}")
        found = self._message(full, "", (full,))
        if not found.fields:
            raise InvalidRequest(f"message {name[:_SHOWN]!r} has no fields that can be columns")
        more = len(self._left_out) - LEFT_OUT_MAX
        return found, (*self._left_out[:LEFT_OUT_MAX], *([f"{more} more"] if more > 0 else ()))

    def _message(self, full: str, path: str, above: tuple[str, ...]) -> ProtoMessage:
        if len(above) > DEPTH_MAX:
            raise _wrong(path, f"more than {DEPTH_MAX} messages within each other")
        said = self._messages[full]
        if said.unreadable:
            raise _wrong(path, f"{full[1:][:_SHOWN]} can't be read: {said.unreadable}")
        types = [self._type_of(each, said.is_map) for each in said.fields]
        members = [self._field(each, type, path, above) for each, type in zip(said.fields, types, strict=True)]
        fields = tuple(each for each in members if each is not None)
        check_names([each.name for each in fields], path or "$")
        if len({each.number for each in fields}) != len(fields):
            raise _wrong(path, "two fields have the same number")
        columns = struct_of(*(ColumnField(each.name, _column_of(each), each.is_required) for each in fields))
        left_out = {
            each.said.number(3) or 0: "message" if type == _MESSAGE else "group"
            for each, type, member in zip(said.fields, types, members, strict=True)
            if member is None
        }
        return ProtoMessage(columns, fields, left_out)

    def _type_of(self, member: _Member, is_in_map: bool) -> int | None:
        """As the field is written: a delimited message is a group, but never a map or what is in one."""
        type = member.said.number(5)
        if type != _MESSAGE or is_in_map or not member.features.is_delimited:
            return type
        declared = self._messages.get(member.said.text(6))
        return _MESSAGE if declared is not None and declared.is_map else _GROUP

    def _field(self, member: _Member, type: int | None, path: str, above: tuple[str, ...]) -> ProtoField | None:
        """None: it can't be a column."""
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise InvalidRequest(f"the schema has more than {NODES_MAX} parts")
        said, presence = member.said, member.features.presence
        name, number, is_repeated = said.text(1), said.number(3) or 0, said.number(4) == _REPEATED
        here = f"{path}.{name}"[:200]
        if not 0 < number < 2**29:
            raise _wrong(here, "its number isn't one of Protobuf's")
        if said.text(7):
            self._left_out.append(f"the default of {here[1:]}")
        if is_repeated and said.number(9) is not None:
            raise _wrong(here, "a field of a oneof can't be repeated")
        is_required = said.number(4) == _REQUIRED or (presence == LEGACY_REQUIRED and not is_repeated)
        is_tracked = presence != IMPLICIT or said.number(9) is not None or type == _MESSAGE
        base = ProtoField(
            number, name, "", ColumnType(STRING),
            is_repeated=is_repeated, is_required=is_required, has_presence=is_tracked and not is_repeated,
            oneof=said.number(9),
        )  # fmt: skip
        if type in SCALARS:
            return base._replace(kind=SCALARS[type], column=_COLUMNS[SCALARS[type]])
        if type == _ENUM:
            symbols, longest = self._symbols(said.text(6), here)
            return base._replace(kind="enum", symbols=symbols, symbol_bytes=longest)
        if type != _MESSAGE:
            return self._without(here)
        return self._of_message(base, said.text(6), here, above)

    def _of_message(self, base: ProtoField, full: str, path: str, above: tuple[str, ...]) -> ProtoField | None:
        if full in _WELL_KNOWN:
            kind = _WELL_KNOWN[full]
            return base._replace(kind=kind, column=_COLUMNS[kind])
        if full not in self._messages:
            raise _wrong(path, f"descriptor_set has no message {full[1:][:_SHOWN]!r}; was it made with imports?")
        if full in above:
            return self._without(path)
        found = self._message(full, path, (*above, full))
        if self._messages[full].is_map:
            return self._map(base, found, path)
        if not found.fields:
            return self._without(path)
        if full in _WRAPPERS and len(found.fields) == 1:
            return base._replace(kind="wrapper", column=found.columns.fields[0].type, message=found)
        return base._replace(kind="message", column=found.columns, message=found)

    def _map(self, base: ProtoField, entry: ProtoMessage, path: str) -> ProtoField | None:
        if [each.number for each in entry.fields] != [1, 2]:
            return self._without(path)  # its value can't be a column
        key, value = entry.fields
        if not base.is_repeated or key.kind not in _MAP_KEYS or any(map(_is_more, entry.fields)):
            raise _wrong(path, "its entries aren't those of a map")
        if value.kind not in _WITH_PARTS:  # absent it is zero, in proto2 too
            value = value._replace(has_presence=False)
        entry = entry._replace(fields=(key._replace(has_presence=False), value))
        return base._replace(kind="map", column=map_of(value.column), message=entry, is_repeated=False)

    def _without(self, path: str) -> None:
        self._left_out.append(path[1:])

    def _symbols(self, full: str, path: str) -> tuple[Mapping[int, str], int]:
        if full not in self._enums:
            raise _wrong(path, f"descriptor_set has no enum {full[1:][:_SHOWN]!r}; was it made with imports?")
        if full not in self._symbols_of:  # once, however many fields are of it
            names: dict[int, str] = {}
            for each in self._enums[full].all(2):
                names.setdefault(each.number(2) or 0, each.text(1))
            longest = max((len(each.encode()) for each in names.values()), default=0)
            if longest > SYMBOL_BYTES_MAX:
                raise _wrong(path, f"a name of its enum has more than {SYMBOL_BYTES_MAX} bytes")
            self._symbols_of[full] = names, longest
        return self._symbols_of[full]


def _is_more(field: ProtoField) -> bool:
    """Than a field of a map's entry can be."""
    return field.is_repeated or field.is_required or field.oneof is not None


def _column_of(field: ProtoField) -> ColumnType:
    return array_of(field.column) if field.is_repeated else field.column


def _wrong(path: str, what: str) -> InvalidRequest:
    return InvalidRequest(f"the schema at {path.removeprefix('.')[:_SHOWN] or 'its top'}: {what}")


def check_protobuf_readable(old: ProtoMessage, new: ProtoMessage) -> list[str]:
    """Why the new message can't read all that was written as the old one; none: it can."""
    return list(_unreadable(old, new, ""))


def _unreadable(old: ProtoMessage, new: ProtoMessage, path: str) -> Iterator[str]:
    before = {each.number: each for each in old.fields}
    numbers = {each.name: each.number for each in old.fields}
    for field in new.fields:
        where = f"{path}.{field.name}".removeprefix(".")
        was = before.get(field.number)
        if numbers.get(field.name, field.number) != field.number:
            yield f"{where} was field {numbers[field.name]}, and would be field {field.number}"
        if field.is_required and (was is None or not was.is_required):
            yield f"{where} would be required"
        if was is None:
            left_out = old.left_out.get(field.number)
            if left_out == "group" or (left_out is not None and field.kind not in (*_WITH_PARTS, "map")):
                yield f"{where}, field {field.number}, was a {left_out}, and would be {_shown(field)}"
            continue
        if field.kind not in (was.kind, WIDER.get(was.kind)) or field.is_repeated != was.is_repeated:
            yield f"{where}, field {field.number}, was {_shown(was)}, and would be {_shown(field)}"
        elif was.message is not None and field.message is not None:
            yield from _unreadable(was.message, field.message, f"{path}.{field.name}")
    yield from _newly_exclusive(before, new, path)


def _newly_exclusive(before: dict[int, ProtoField], new: ProtoMessage, path: str) -> Iterator[str]:
    """Fields that were beside each other, and of which a body could have only one now."""
    groups: dict[int, list[ProtoField]] = {}
    for field in new.fields:
        if field.oneof is not None and field.number in before:
            groups.setdefault(field.oneof, []).append(field)
    for fields in groups.values():
        was = {before[each.number].oneof for each in fields}
        if len(fields) > 1 and (None in was or len(was) > 1):
            names = " and ".join(f"{path}.{each.name}".removeprefix(".") for each in fields[:2])
            yield f"{names} would exclude each other"


def _shown(field: ProtoField) -> str:
    return f"repeated {field.kind}" if field.is_repeated else field.kind
