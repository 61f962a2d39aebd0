"""A few rows as bytes, one after the other, and back: the payload of a frame of few messages.

docs/log_format.md, "Rows one after the other", is the grammar. Arrow's price is for each column, whatever is in it: for
a frame of one message it is ten times this one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from struct import Struct, error
from typing import Any, NamedTuple

from lakemq.model.message_columns import STORED, Kind
from lakemq.storage.segment.frame import ALIGNMENT, FrameError

_WIDTH = len(STORED)
_BODY_MASK = 1
_MASK = Struct("<I")
_LENGTH = Struct("<I")


def _encode_texts(texts: Sequence[str]) -> bytes:
    encoded = [text.encode() for text in texts]
    return b"".join([part for each in encoded for part in (_LENGTH.pack(len(each)), each)])


def _encode_map(pairs: Mapping[str, str]) -> bytes:
    return _encode_texts([text for pair in pairs.items() for text in pair])


def _decode_texts(data: bytes) -> list[str]:
    texts: list[str] = []
    at = 0
    while at < len(data):
        (size,) = _LENGTH.unpack_from(data, at)
        begin = at + _LENGTH.size
        at = begin + size
        if at > len(data):
            raise FrameError("a text of the payload's rows is cut off")
        texts.append(str(data[begin:at], "utf-8"))
    return texts


def _decode_map(data: bytes) -> dict[str, str]:
    texts = _decode_texts(data)
    if len(texts) % 2:
        raise FrameError("a property of the payload's rows has no value")
    return dict(zip(texts[::2], texts[1::2], strict=True))


def _decode_text(data: bytes) -> str:
    return str(data, "utf-8")


class _Form(NamedTuple):
    """How a kind of column is written: `number`, the value itself by that letter of `struct`; else its bytes, whose
    length stands in the number's place."""

    number: str
    encode: Callable[[Any], bytes] | None = None
    decode: Callable[[bytes], Any] | None = None


_FORMS: dict[Kind, _Form] = {
    Kind.INT: _Form("i"),
    Kind.LONG: _Form("q"),
    Kind.TIME: _Form("q"),
    Kind.BYTES: _Form("I", bytes, bytes),
    Kind.TEXT: _Form("I", str.encode, _decode_text),
    Kind.TEXTS: _Form("I", _encode_texts, _decode_texts),
    Kind.MAP: _Form("I", _encode_map, _decode_map),
}


class _Layout(NamedTuple):
    """The numbers of a row with certain columns, the row's mask first; and of each column where it stands in a `Row`
    and how."""

    numbers: Struct
    columns: tuple[tuple[int, _Form], ...]


@lru_cache(maxsize=4096)
def _layout(mask: int) -> _Layout:
    columns = tuple((bit + 1, _FORMS[each.kind]) for bit, each in enumerate(STORED) if mask >> bit & 1)
    return _Layout(Struct("<I" + "".join([form.number for _, form in columns])), columns)


def encode_rows(rows: Sequence[tuple[Any, ...]]) -> bytes:
    """The payload of rows as `make_row` makes them: a multiple of 8 bytes.

    Raises `struct.error`, `UnicodeEncodeError`, `AttributeError` or `TypeError` for what their columns can't hold.
    """
    parts: list[bytes] = []
    for row in rows:
        mask: int = row[0]
        layout = _layout(mask)
        numbers: list[int] = [mask]
        texts: list[bytes] = []
        for place, form in layout.columns:
            value = row[place]
            if form.encode is None:
                numbers.append(value)
            else:
                data = form.encode(value)
                numbers.append(len(data))
                texts.append(data)
        parts.append(layout.numbers.pack(*numbers))
        parts += texts
    payload = b"".join(parts)
    return payload + bytes(-len(payload) % ALIGNMENT)


def decode_rows(columns: int, count: int, payload: bytes | memoryview) -> list[tuple[Any, ...]]:
    """The `count` rows of a payload whose checksum was checked, with some of `columns`, a frame's mask.

    Raises `FrameError` when it is not what `encode_rows` wrote: whoever wrote it was no lakemq.
    """
    data = bytes(payload)
    rows: list[tuple[Any, ...]] = []
    at = found = 0
    try:
        for _ in range(count):
            row, at = _decode_row(data, at)
            rows.append(row)
            found |= row[0]
    except (error, UnicodeDecodeError) as why:
        raise FrameError(f"the payload's rows are malformed: {why}") from None
    rest = data[at:]
    if found != columns or len(rest) >= ALIGNMENT or any(rest):
        raise FrameError("the payload's rows are not those that the header says")
    return rows


def _decode_row(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
    """The row that begins at `at`, and where it ends."""
    (mask,) = _MASK.unpack_from(data, at)
    if not mask & _BODY_MASK or mask >> _WIDTH:
        raise FrameError("a row of the payload has unknown columns")
    layout = _layout(mask)
    _, *numbers = layout.numbers.unpack_from(data, at)
    at += layout.numbers.size
    values: list[Any] = [mask] + [None] * _WIDTH
    for number, (place, form) in zip(numbers, layout.columns, strict=True):
        if form.decode is None:
            values[place] = number
            continue
        end = at + number
        if end > len(data):
            raise FrameError("a row of the payload is cut off")
        values[place] = form.decode(data[at:end])
        at = end
    return tuple(values), at
