"""Bodies in Protobuf's binary encoding, as rows.

What is more lenient or stricter than Google's own parsers: an enum's number without a name is that number as text,
also in proto2; a field of another wire type than the schema says is an error, and not an unknown field; a message that
another field of its oneof replaces isn't looked at; an entry of a map may have fields that the schema doesn't know.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Set
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from lakemq.model.fit import TOO_MANY, Misfit
from lakemq.model.protobuf_schema import ProtoField, ProtoMessage
from lakemq.model.protobuf_wire import BYTES, FIXED32, FIXED64, VARINT, signed, sized, skip, varint
from lakemq.model.row_room import VALUE_BYTES, VALUES_MAX, room_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS_LEAST, _SECONDS_MOST = -62_135_596_800, 253_402_300_799
"""Of Timestamp: the years 1 to 9999."""
_DURATION_MOST = 315_576_000_000
_NANOS_MOST = 999_999_999
_INDEXES_MAX = 100
_HEADER_BYTES = 5


class _Room:
    """`values`: so many more elements of arrays and maps there may be, each counted with its columns, and a long name
    of an enum as several."""

    __slots__ = ("values",)

    def __init__(self, values: int) -> None:
        self.values = values

    def take(self, values: int) -> None:
        self.values -= values
        if self.values < 0:
            raise Misfit(TOO_MANY)


Row = dict[str, Any]
Scalar = Callable[[bytes, int, int], tuple[Any, int]]
"""Reads one value: what it is, and where the next thing begins."""
Step = Callable[[Row, bytes, int, int, _Room], int]
"""Reads what comes after a field's tag into the row, and says where the next tag is."""
Finish = Callable[[Row, _Room], None]
"""Makes what the steps have put into a row, once all of it is read."""
ReadMessage = Callable[[bytes, int, int, _Room], Row]


def decoder_of_protobuf(message: ProtoMessage) -> Callable[[bytes], Row]:
    """Makes a row of a body, which may begin with the header of Confluent's wire format. Raises `Misfit`."""
    read, width = _message(message), room_of(message.columns).width + _long_names(message.fields)

    def decode(body: bytes) -> Row:
        room = _Room(max(VALUES_MAX, len(body)) - width)
        return read(body, _begin(body), len(body), room)

    return decode


def _begin(body: bytes) -> int:
    """Where the message begins: a zero, which begins no message, a number of four bytes, and which of a file's messages
    it is. These are passed over: the schema says which it is."""
    if body[:1] != b"\x00":
        return 0
    if len(body) < _HEADER_BYTES:
        raise Misfit("the body is no Protobuf message")
    count, at = varint(body, _HEADER_BYTES, len(body))
    if count >> 1 > _INDEXES_MAX:
        raise Misfit("the body is no Protobuf message")
    for _ in range(count >> 1):
        at = varint(body, at, len(body))[1]
    return at


def _message(message: ProtoMessage) -> ReadMessage:
    fields = message.fields
    known = {each.number: each.name for each in fields}
    zeros: Row = {each.name: None if each.has_presence or each.is_required else _zero(each) for each in fields}
    fresh = [(each.name, dict if each.kind == "map" else list) for each in fields if _has_many(each)]
    shared = {
        oneof for oneof, count in Counter(each.oneof for each in fields).items() if oneof is not None and count > 1
    }
    steps = {tag: step for each in fields for tag, step in _named_steps(each, shared)}
    finishes = [finish for each in fields if (finish := _finish(each)) is not None]
    finishes += [_forgetting(_last_of(oneof)) for oneof in shared]
    required = [each.name for each in fields if each.is_required]

    def read(data: bytes, at: int, end: int, room: _Room) -> Row:
        row = zeros.copy()
        for name, empty in fresh:
            row[name] = empty()
        while at < end:
            tag = data[at]
            if tag < 0x80:
                at += 1
            else:
                tag, at = varint(data, at, end)
            step = steps.get(tag)
            at = _unknown(known, data, tag, at, end) if step is None else step(row, data, at, end, room)
        for finish in finishes:
            finish(row, room)
        for name in required:
            if row[name] is None:
                raise Misfit("it is required, and missing", f".{name}")
        return row

    return read


def _has_many(field: ProtoField) -> bool:
    return field.is_repeated or field.kind == "map"


def _named_steps(field: ProtoField, shared: Set[int]) -> Iterator[tuple[int, Step]]:
    """`shared`: the oneofs that have several fields."""
    for tag, step in _steps(field):
        if field.oneof is not None and field.oneof in shared:
            step = _excluding(step, field.name, _last_of(field.oneof))
        yield tag, _named(step, field.name)


def _last_of(oneof: int) -> str:
    """Where a row has the field of the oneof that came last, while it is read: no field can have this name."""
    return f"\n{oneof}"


def _unknown(known: dict[int, str], data: bytes, tag: int, at: int, end: int) -> int:
    if tag >> 3 in known:
        raise Misfit("it is of another type than the schema has there", f".{known[tag >> 3]}")
    return skip(data, tag, at, end)


def _named(step: Step, name: str) -> Step:
    def named(row: Row, data: bytes, at: int, end: int, room: _Room) -> int:
        try:
            return step(row, data, at, end, room)
        except Misfit as misfit:
            raise misfit.within(f".{name}") from None

    return named


def _excluding(step: Step, name: str, last: str) -> Step:
    """Of a oneof, of which the last counts. Only the one before it is cleared, as a oneof may have many fields."""

    def excluding(row: Row, data: bytes, at: int, end: int, room: _Room) -> int:
        before = row.get(last)
        if before != name:
            if before is not None:
                row[before] = None
            row[last] = name
        return step(row, data, at, end, room)

    return excluding


def _forgetting(last: str) -> Finish:
    def finish(row: Row, room: _Room) -> None:
        row.pop(last, None)

    return finish


def _steps(field: ProtoField) -> list[tuple[int, Step]]:
    """By tag. Numbers that are repeated come one by one or packed, whatever the schema says."""
    if field.kind == "map":
        return [(field.number << 3 | BYTES, _entries(field))]
    if field.message is not None or field.kind in _WELL_KNOWN:
        return [(field.number << 3 | BYTES, _messages(field) if field.is_repeated else _parts(field))]
    wire, read = _scalar(field)
    steps = [(field.number << 3 | wire, _append(field, read) if field.is_repeated else _set(field, read))]
    if field.is_repeated and wire != BYTES:
        steps.append((field.number << 3 | BYTES, _packed(field, read)))
    return steps


def _set(field: ProtoField, read: Scalar) -> Step:
    name = field.name

    def step(row: Row, data: bytes, at: int, end: int, room: _Room) -> int:
        row[name], at = read(data, at, end)
        return at

    return step


def _append(field: ProtoField, read: Scalar) -> Step:
    name, width = field.name, 1 + _long_names((field,))

    def step(row: Row, data: bytes, at: int, end: int, room: _Room) -> int:
        room.take(width)
        value, at = read(data, at, end)
        row[name].append(value)
        return at

    return step


def _packed(field: ProtoField, read: Scalar) -> Step:
    name, width = field.name, 1 + _long_names((field,))

    def step(row: Row, data: bytes, at: int, end: int, room: _Room) -> int:
        at, after = sized(data, at, end)
        values: list[Any] = row[name]
        before = len(values)
        while at < after:
            value, at = read(data, at, after)
            values.append(value)
        room.take(width * (len(values) - before))
        return after

    return step


def _parts(field: ProtoField) -> Step:
    """A message that comes in parts is what these are one after the other."""
    name = field.name

    def step(row: Row, data: bytes, at: int, end: int, room: _Room) -> int:
        at, after = sized(data, at, end)
        if row[name] is None:
            row[name] = []
        row[name].append(data[at:after])
        return after

    return step


def _finish(field: ProtoField) -> Finish | None:
    if field.kind == "map":
        return _pairs(field.name)
    if field.is_repeated or not (field.message is not None or field.kind in _WELL_KNOWN):
        return None
    name, read = field.name, _whole(field)

    def finish(row: Row, room: _Room) -> None:
        parts: list[bytes] | None = row[name]
        if parts is None:
            return
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        try:
            row[name] = read(data, 0, len(data), room)
        except Misfit as misfit:
            raise misfit.within(f".{name}") from None

    return finish


def _messages(field: ProtoField) -> Step:
    name, read, width = field.name, _whole(field), room_of(field.column).width + _long_names((field,))

    def step(row: Row, data: bytes, at: int, end: int, room: _Room) -> int:
        at, after = sized(data, at, end)
        room.take(width)
        values: list[Any] = row[name]
        try:
            values.append(read(data, at, after, room))
        except Misfit as misfit:
            raise misfit.within(f"[{len(values)}]") from None
        return after

    return step


def _entries(field: ProtoField) -> Step:
    """Of a map: each entry is a message of two, and the last of a key counts. The key is shown as text."""
    assert field.message is not None
    entry, name = field.message, field.name
    key, value = entry.fields
    read, width = _message(entry), room_of(value.column).width + _long_names((value,))
    is_empty = _whole(value) if value.has_presence else None

    def step(row: Row, data: bytes, at: int, end: int, room: _Room) -> int:
        at, after = sized(data, at, end)
        room.take(width)
        found = read(data, at, after, room)
        one = found[value.name]
        if one is None and is_empty is not None:
            one = is_empty(b"", 0, 0, room)
        row[name][_key_text(found[key.name])] = one
        return after

    return step


def _long_names(fields: Iterable[ProtoField]) -> int:
    """As how many more values the names of enums count that one element has, at most: such a name may be as long as
    several of them."""
    found = 0
    for field in fields:
        found += field.symbol_bytes // VALUE_BYTES
        if field.message is not None and field.kind != "map":
            found += _long_names(each for each in field.message.fields if not _has_many(each))
    return found


def _key_text(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)


def _pairs(name: str) -> Finish:
    def finish(row: Row, room: _Room) -> None:
        row[name] = list(row[name].items())

    return finish


def _whole(field: ProtoField) -> Callable[[bytes, int, int, _Room], Any]:
    """Reads all of a message that is a field's."""
    if field.kind in _WELL_KNOWN:
        return _WELL_KNOWN[field.kind]
    assert field.message is not None
    read = _message(field.message)
    if field.kind != "wrapper":
        return read
    name = field.message.fields[0].name
    return lambda data, at, end, room: read(data, at, end, room)[name]


def _seconds_and_nanos(data: bytes, at: int, end: int) -> tuple[int, int]:
    found = {1: 0, 2: 0}
    while at < end:
        tag, at = varint(data, at, end)
        if tag in (1 << 3, 2 << 3):
            value, at = varint(data, at, end)
            found[tag >> 3] = signed(value, 64 if tag >> 3 == 1 else 32)
        else:
            at = skip(data, tag, at, end)
    return found[1], found[2]


def _timestamp(data: bytes, at: int, end: int, room: _Room) -> datetime:
    seconds, nanos = _seconds_and_nanos(data, at, end)
    if not _SECONDS_LEAST <= seconds <= _SECONDS_MOST or not 0 <= nanos <= _NANOS_MOST:
        raise Misfit("the time is outside the years 1 to 9999")
    return _EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1_000)


def _duration(data: bytes, at: int, end: int, room: _Room) -> Decimal:
    seconds, nanos = _seconds_and_nanos(data, at, end)
    if abs(seconds) > _DURATION_MOST or abs(nanos) > _NANOS_MOST or seconds * nanos < 0:
        raise Misfit("it is no duration")
    return Decimal(seconds * 10**9 + nanos).scaleb(-9)


_WELL_KNOWN: dict[str, Callable[[bytes, int, int, _Room], Any]] = {"timestamp": _timestamp, "duration": _duration}


def _zero(field: ProtoField) -> Any:
    """What a field is whose presence isn't tracked, and that is absent; of arrays and maps each row gets its own."""
    if field.kind == "enum":
        return next(iter(field.symbols.values()), "0")
    zeros: dict[str, Any] = {"bool": False, "float": 0.0, "double": 0.0, "string": "", "bytes": b""}
    of_64_bits = Decimal(0) if field.kind in ("uint64", "fixed64") else 0
    return zeros.get(field.kind, of_64_bits)


def _scalar(field: ProtoField) -> tuple[int, Scalar]:
    """Its wire type, and what reads it."""
    if field.kind in _LENGTHS:
        return BYTES, _LENGTHS[field.kind]
    if field.kind in _FIXED:
        return _fixed(*_FIXED[field.kind], is_decimal=field.kind == "fixed64")
    if field.kind == "enum":
        symbols = field.symbols

        def symbol(number: int) -> str:
            number = signed(number, 32)
            return symbols.get(number) or str(number)

        return VARINT, _varying(symbol)
    return VARINT, _varying(_VARYING[field.kind])


def _varying(make: Callable[[int], Any]) -> Scalar:
    def read(data: bytes, at: int, end: int) -> tuple[Any, int]:
        number, at = varint(data, at, end)
        return make(number), at

    return read


def _zigzag(number: int) -> int:
    return (number >> 1) ^ -(number & 1)


_VARYING: dict[str, Callable[[int], Any]] = {
    "int32": lambda number: signed(number, 32),
    "int64": lambda number: signed(number, 64),
    "uint32": lambda number: number & 0xFFFF_FFFF,
    "uint64": Decimal,
    "sint32": lambda number: _zigzag(number & 0xFFFF_FFFF),
    "sint64": _zigzag,
    "bool": bool,
}


def _fixed(wire: int, form: str, *, is_decimal: bool) -> tuple[int, Scalar]:
    layout = struct.Struct(form)
    size = layout.size

    def read(data: bytes, at: int, end: int) -> tuple[Any, int]:
        if at + size > end:
            raise Misfit("the body ends too early")
        (value,) = layout.unpack_from(data, at)
        return Decimal(value) if is_decimal else value, at + size

    return wire, read


_FIXED = {
    "double": (FIXED64, "<d"),
    "float": (FIXED32, "<f"),
    "fixed64": (FIXED64, "<Q"),
    "sfixed64": (FIXED64, "<q"),
    "fixed32": (FIXED32, "<I"),
    "sfixed32": (FIXED32, "<i"),
}


def _text(data: bytes, at: int, end: int) -> tuple[str, int]:
    at, after = sized(data, at, end)
    try:
        return data[at:after].decode(), after
    except UnicodeDecodeError:
        raise Misfit("the text is no UTF-8") from None


def _bytes(data: bytes, at: int, end: int) -> tuple[bytes, int]:
    at, after = sized(data, at, end)
    return data[at:after], after


_LENGTHS: dict[str, Scalar] = {"string": _text, "bytes": _bytes}
