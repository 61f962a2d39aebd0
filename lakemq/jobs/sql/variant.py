"""Spark's VARIANT, as Arrow brings it: bytes of a value, and the names of its fields (Parquet's "Variant Binary
Encoding", of the types that Spark has). Read without Spark, which isn't where many ask for rows."""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from lakemq.jobs.errors import InvalidStatement

_PRIMITIVE, _SHORT_TEXT, _OBJECT, _ARRAY = range(4)
_NULL, _TRUE, _FALSE = range(3)
_INTEGERS = {3: 1, 4: 2, 5: 4, 6: 8}
"""How many bytes, by the type."""
_DOUBLE, _DATE, _TIMESTAMP, _LOCAL_TIMESTAMP, _FLOAT, _BYTES, _LONG_TEXT = 7, 11, 12, 13, 14, 15, 16
_DECIMALS = {8: 4, 9: 8, 10: 16}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_variant(value: bytes, metadata: bytes) -> Any:
    """The value, of Python's types. Raises `InvalidStatement` for what is none, or goes too deep."""
    try:
        return _Reader(value, _names_in(metadata)).at(0)
    except (IndexError, ValueError, OverflowError, RecursionError):
        raise InvalidStatement("a VARIANT among the rows is none, or too deep to be shown") from None


class _Reader:
    def __init__(self, value: bytes, names: list[str]) -> None:
        self._value = value
        self._names = names

    def at(self, place: int) -> Any:
        """What stands there."""
        kind, info = self._value[place] & 3, self._value[place] >> 2
        if kind == _SHORT_TEXT:
            return _taken(self._value, place + 1, info).decode()
        if kind == _OBJECT:
            return self._object(place + 1, info)
        if kind == _ARRAY:
            return self._array(place + 1, info)
        return self._primitive(place + 1, info)

    def _object(self, place: int, info: int) -> dict[str, Any]:
        count_size, id_size, offset_size = (4 if info >> 4 & 1 else 1), (info >> 2 & 3) + 1, (info & 3) + 1
        count = _number(self._value, place, count_size)
        ids = place + count_size
        offsets = ids + count * id_size
        begin = offsets + (count + 1) * offset_size
        found: dict[str, Any] = {}
        for at in range(count):
            name = self._names[_number(self._value, ids + at * id_size, id_size)]
            found[name] = self.at(begin + _number(self._value, offsets + at * offset_size, offset_size))
        return found

    def _array(self, place: int, info: int) -> list[Any]:
        count_size, offset_size = (4 if info >> 2 & 1 else 1), (info & 3) + 1
        count = _number(self._value, place, count_size)
        offsets = place + count_size
        begin = offsets + (count + 1) * offset_size
        return [self.at(begin + _number(self._value, offsets + at * offset_size, offset_size)) for at in range(count)]

    def _primitive(self, place: int, kind: int) -> Any:
        if kind in (_NULL, _TRUE, _FALSE):
            return (None, True, False)[kind]
        if kind in _INTEGERS:
            return _number(self._value, place, _INTEGERS[kind], signed=True)
        if kind in _DECIMALS:
            whole = _number(self._value, place + 1, _DECIMALS[kind], signed=True)
            return Decimal(f"{whole}e-{self._value[place]}")  # exact, whatever the context is
        if kind in (_DOUBLE, _FLOAT):
            form, size = ("<d", 8) if kind == _DOUBLE else ("<f", 4)
            return struct.unpack(form, _taken(self._value, place, size))[0]
        if kind in (_BYTES, _LONG_TEXT):
            content = _taken(self._value, place + 4, _number(self._value, place, 4))
            return content if kind == _BYTES else content.decode()
        return self._time(place, kind)

    def _time(self, place: int, kind: int) -> date | datetime:
        if kind == _DATE:
            return _EPOCH.date() + timedelta(days=_number(self._value, place, 4, signed=True))
        if kind not in (_TIMESTAMP, _LOCAL_TIMESTAMP):
            raise ValueError("no type that is known")
        found = _EPOCH + timedelta(microseconds=_number(self._value, place, 8, signed=True))
        return found if kind == _TIMESTAMP else found.replace(tzinfo=None)


def _names_in(metadata: bytes) -> list[str]:
    size = (metadata[0] >> 6) + 1
    count = _number(metadata, 1, size)
    begin = 1 + (count + 2) * size
    ends = [_number(metadata, 1 + (at + 1) * size, size) for at in range(count + 1)]
    return [_taken(metadata, begin + ends[at], ends[at + 1] - ends[at]).decode() for at in range(count)]


def _number(data: bytes, place: int, size: int, signed: bool = False) -> int:
    return int.from_bytes(_taken(data, place, size), "little", signed=signed)


def _taken(data: bytes, place: int, size: int) -> bytes:
    """So many bytes, all of which there have to be."""
    found = data[place : place + size]
    if len(found) != size:
        raise IndexError("it ends before")
    return found
