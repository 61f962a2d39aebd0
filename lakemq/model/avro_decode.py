"""Bodies in Avro's binary encoding, as rows: what one schema has written, read with another."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from types import NoneType
from typing import Any, cast

from lakemq.model.avro_schema import AvroField, AvroType, by_name, can_read, matches, written_as
from lakemq.model.column_type import STRUCT
from lakemq.model.errors import InvalidRequest
from lakemq.model.fit import TOO_MANY, Misfit
from lakemq.model.row_room import room_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONG_BYTES_MAX = 10
_WRONG = (KeyError, TypeError, ValueError, OverflowError, Misfit)
"""What a default that isn't of its type comes to."""
_DATE_MAX = 2_932_896
"""9999-12-31, in days."""
DEFAULTS_CHARACTERS_MAX = 16 * 1024 * 1024
"""So much of defaults a body is filled up with."""
_NULL_CHARACTERS = len("'': None")
_MICROS_LEAST, _MICROS_MOST = -62_135_596_800_000_000, 253_402_300_799_999_999


class Cursor:
    """Where in a body it is read. `items`: so many more elements of arrays and maps there may be. One may take no byte
    at all, so without this a few bytes would become a list without end. `room`: so many more characters of defaults
    there may be, as each of many small records may get long ones."""

    __slots__ = ("at", "data", "items", "room")

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at
        self.items = len(data)
        self.room = DEFAULTS_CHARACTERS_MAX

    def take(self, size: int) -> bytes:
        """The next bytes."""
        end = self.at + size
        if size < 0 or end > len(self.data):
            raise Misfit("the body ends too early")
        found = self.data[self.at : end]
        self.at = end
        return found

    def long(self) -> int:
        """The next number, which is zigzag and of a variable length."""
        data, at, shift, found = self.data, self.at, 0, 0
        while True:
            if at >= len(data):
                raise Misfit("the body ends too early")
            byte = data[at]
            at += 1
            found |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift >= 7 * _LONG_BYTES_MAX:
                raise Misfit("a number has more than 64 bits")
        self.at = at
        found = (found >> 1) ^ -(found & 1)
        if not -(2**63) <= found < 2**63:
            raise Misfit("a number has more than 64 bits")
        return found

    def count(self) -> int:
        """How many elements the next block of an array or a map has; 0: that was the last."""
        count = self.long()
        if count < 0:
            count = -count
            self.long()  # its bytes
        self.items -= count
        if self.items < 0:
            raise Misfit("the body says that it has more elements than bytes")
        return count

    def fill(self, characters: int) -> None:
        """A record gets defaults of that size."""
        self.room -= characters
        if self.room < 0:
            raise Misfit(f"its records would get defaults of more than {DEFAULTS_CHARACTERS_MAX} characters")


Read = Callable[[Cursor], Any]


def decoder_of_avro(writer: AvroType, reader: AvroType) -> Callable[[bytes, int], dict[str, Any]]:
    """Makes a row of the reader's columns of what the writer has written, from a byte on to the body's end. Raises
    `Misfit`."""
    read = _reading(writer, reader)
    room = room_of(reader.columns)

    def decode(body: bytes, begin: int) -> dict[str, Any]:
        cursor = Cursor(body, begin)
        row = read(cursor)
        if room.is_over(row, len(body), len(body)):
            raise Misfit(TOO_MANY)
        if cursor.at != len(body):
            raise Misfit(f"the record ends at byte {cursor.at}, and the body has {len(body)}")
        return row

    return decode


def _reading(writer: AvroType, reader: AvroType) -> Read:
    if writer.kind == "union":
        return _of_branches([_reading(each, reader) for each in writer.branches])
    if reader.kind == "union":
        return _into_union(writer, reader)
    if not matches(writer, reader):
        return _never
    if writer.kind == "record":
        return _record(writer, reader)
    if writer.of is not None and reader.of is not None:
        return (
            _array(_reading(writer.of, reader.of)) if writer.kind == "array" else _map(_reading(writer.of, reader.of))
        )
    if writer.kind == "enum":
        return _enum(writer, reader)
    if reader.logical:
        return _LOGICAL[reader.logical](reader)
    read = _scalar(writer)
    return _promoted(read, writer.kind, reader.kind)


def _never(_: Cursor) -> Any:
    raise Misfit("it is of a type that the schema doesn't have there")


def _of_branches(reads: list[Read]) -> Read:
    def read(cursor: Cursor) -> Any:
        at = cursor.long()
        if not 0 <= at < len(reads):
            raise Misfit("a union has no such type")
        return reads[at](cursor)

    return read


def _into_union(writer: AvroType, reader: AvroType) -> Read:
    """The first that is the same, or else that can read it, as the specification says."""
    able = [each for each in reader.branches if can_read(writer, each)]
    able.sort(key=lambda each: (each.kind != writer.kind, each.logical != writer.logical))
    if not able:
        return _never
    read = _reading(writer, able[0])
    if writer.kind == "null":
        return read
    name = _member(reader, able[0])
    return read if name is None else lambda cursor: {name: read(cursor)}


def _member(union: AvroType, branch: AvroType) -> str | None:
    """As which field of the union's STRUCT the branch is shown; None: it is no STRUCT of several."""
    others = [each for each in union.branches if each.kind != "null"]
    if len(others) == 1 or union.columns.kind != STRUCT:
        return None
    return f"member{others.index(branch)}"


def _record(writer: AvroType, reader: AvroType) -> Read:
    by_written: dict[str, AvroField] = {}
    defaults: dict[str, Any] = {}
    written = by_name(writer)
    for field in reader.fields:
        was = written_as(written, field)
        if was is None:
            defaults[field.name] = default_of(field.type, field.default) if field.has_default else None
        else:
            by_written[was.name] = field
    steps: list[tuple[str, str | None, Read]] = []
    for each in writer.fields:
        field = by_written.get(each.name)
        target = each.type if field is None else field.type
        steps.append((each.name, None if field is None else field.name, _reading(each.type, target)))

    # Nor does a null take a byte of the body.
    size = (len(repr(defaults)) if defaults else 0) + _NULL_CHARACTERS * sum(
        each.type.kind == "null" for each in writer.fields
    )

    def read(cursor: Cursor) -> Any:
        cursor.fill(size)
        row = dict(defaults)
        for name, into, read_one in steps:
            try:
                value = read_one(cursor)
            except Misfit as misfit:
                raise misfit.within(f".{name}") from None
            if into is not None:
                row[into] = value
        return row

    return read


def _array(read_one: Read) -> Read:
    def read(cursor: Cursor) -> Any:
        found: list[Any] = []
        while count := cursor.count():
            found += [read_one(cursor) for _ in range(count)]
        return found

    return read


def _map(read_one: Read) -> Read:
    def read(cursor: Cursor) -> Any:
        found: dict[str, Any] = {}
        while count := cursor.count():
            for _ in range(count):
                key = _text(cursor)
                found[key] = read_one(cursor)
        return list(found.items())

    return read


def _enum(writer: AvroType, reader: AvroType) -> Read:
    known = [each if each in reader.symbols else reader.default_symbol for each in writer.symbols]

    def read(cursor: Cursor) -> Any:
        at = cursor.long()
        found = known[at] if 0 <= at < len(known) else None
        if found is None:
            raise Misfit("the enum has no such symbol")
        return found

    return read


def _text(cursor: Cursor) -> str:
    try:
        return cursor.take(cursor.long()).decode()
    except UnicodeDecodeError:
        raise Misfit("the text is no UTF-8") from None


def _boolean(cursor: Cursor) -> bool:
    found = cursor.take(1)[0]
    if found > 1:
        raise Misfit("a boolean is 0 or 1")
    return found == 1


def _int(cursor: Cursor) -> int:
    found = cursor.long()
    if not -(2**31) <= found < 2**31:
        raise Misfit("the int has more than 32 bits")
    return found


_SCALARS: dict[str, Read] = {
    "null": lambda _: None,
    "boolean": _boolean,
    "int": _int,
    "long": Cursor.long,
    "float": lambda cursor: struct.unpack("<f", cursor.take(4))[0],
    "double": lambda cursor: struct.unpack("<d", cursor.take(8))[0],
    "bytes": lambda cursor: cursor.take(cursor.long()),
    "string": _text,
}


def _scalar(type: AvroType) -> Read:
    size = type.size
    return _SCALARS[type.kind] if type.kind in _SCALARS else lambda cursor: cursor.take(size)


def _promoted(read: Read, writer: str, reader: str) -> Read:
    if reader in ("float", "double") and writer in ("int", "long"):
        return lambda cursor: float(read(cursor))
    if (writer, reader) == ("bytes", "string"):
        return _text
    if (writer, reader) == ("string", "bytes"):
        return _SCALARS["bytes"]
    return read


def _date(_: AvroType) -> Read:
    def read(cursor: Cursor) -> Any:
        return _to_date(_int(cursor))

    return read


def _to_date(days: int) -> date:
    if not -719_162 <= days <= _DATE_MAX:
        raise Misfit("the date is before the year 1, or after 9999")
    return _EPOCH.date() + timedelta(days=days)


def _timestamp(type: AvroType) -> Read:
    factor = 1_000 if type.logical == "timestamp-millis" else 1

    def read(cursor: Cursor) -> Any:
        return _to_time(cursor.long() * factor)

    return read


def _to_time(micros: int) -> datetime:
    if not _MICROS_LEAST <= micros <= _MICROS_MOST:
        raise Misfit("the time is before the year 1, or after 9999")
    return _EPOCH + timedelta(microseconds=micros)


def _decimal(type: AvroType) -> Read:
    read_bytes = _scalar(type)

    def read(cursor: Cursor) -> Any:
        return _to_decimal(read_bytes(cursor), type)

    return read


def _to_decimal(digits: bytes, type: AvroType) -> Decimal:
    unscaled = int.from_bytes(digits, "big", signed=True)
    if abs(unscaled) >= 10**type.columns.precision:
        raise Misfit(f"the number has more than {type.columns.precision} digits")
    return Decimal(f"{unscaled}E-{type.columns.scale}")


_LOGICAL: dict[str, Callable[[AvroType], Read]] = {
    "date": _date,
    "timestamp-millis": _timestamp,
    "timestamp-micros": _timestamp,
    "decimal": _decimal,
}


def check_defaults(type: AvroType) -> None:
    """Raise `InvalidRequest` for a default that isn't of its field's type."""
    for field in type.fields:
        if field.has_default:
            default_of(field.type, field.default)
        check_defaults(field.type)
    for inner in (*type.branches, *([] if type.of is None else [type.of])):
        check_defaults(inner)


def default_of(type: AvroType, said: Any) -> Any:
    """A field's default, which a schema has as JSON, as a column's value. Raises `InvalidRequest`."""
    try:
        return _default(type, said)
    except _WRONG:
        raise InvalidRequest(f"the schema has a default that isn't of its type, {type.name or type.kind}") from None


def _default(type: AvroType, said: Any) -> Any:
    if type.kind == "union":
        for branch in type.branches:
            try:
                value = _default(branch, said)
            except _WRONG:
                continue
            name = None if branch.kind == "null" else _member(type, branch)
            return value if name is None else {name: value}
        raise TypeError
    if type.kind == "record":
        said = cast("dict[str, Any]", _of(dict, said))
        return {
            each.name: _default(
                each.type, said[each.name] if each.name in said or not each.has_default else each.default
            )
            for each in type.fields
        }
    if type.of is not None and type.kind == "array":
        return [_default(type.of, each) for each in _of(list, said)]
    if type.of is not None:
        return [(key, _default(type.of, each)) for key, each in _of(dict, said).items()]
    return _scalar_default(type, said)


def _scalar_default(type: AvroType, said: Any) -> Any:
    if type.kind in ("bytes", "fixed"):
        content = _of(str, said).encode("latin-1")
        if type.kind == "fixed" and len(content) != type.size:
            raise ValueError
        return _to_decimal(content, type) if type.logical else content
    if type.kind == "enum":
        return type.symbols[type.symbols.index(said)]
    if type.kind in _DEFAULT_KINDS:
        return _of(_DEFAULT_KINDS[type.kind], said)
    if isinstance(said, bool):
        raise TypeError
    if type.kind in ("float", "double"):
        return float(_of((int, float), said))
    return _number_default(type, said)


_DEFAULT_KINDS: dict[str, type] = {"boolean": bool, "null": NoneType, "string": str}


def _number_default(type: AvroType, said: Any) -> Any:
    bits = 31 if type.kind == "int" else 63
    number = _of(int, said)
    if not -(2**bits) <= number < 2**bits:
        raise ValueError
    if type.logical == "date":
        return _to_date(number)
    if type.logical:
        return _to_time(number * (1_000 if type.logical == "timestamp-millis" else 1))
    return number


def _of(kind: type | tuple[type, ...], said: Any) -> Any:
    if not isinstance(said, kind):
        raise TypeError
    return said
