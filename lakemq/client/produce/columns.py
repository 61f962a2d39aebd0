"""Columns of Arrow, made of Python's values by hand.

`pa.array` and `pa.scalar` import pandas where it is installed, the first time that either is called: half a second in
which a program's event loop stands still, and 80 MB, for nothing that is needed here.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

import pyarrow as pa

_encode = str.encode  # which takes nothing but texts
_MAP = pa.map_(pa.string(), pa.string())
_ENTRY = [_MAP.key_field, _MAP.item_field]
_CODES = {pa.int32(): "i", pa.int64(): "q"}


def binary(values: Sequence[bytes | None], kind: pa.DataType | None = None) -> pa.Array:
    """A column of bytes, or of the UTF-8 of texts. Raises `TypeError` for what is none."""
    offsets = array("i", accumulate([0 if value is None else len(value) for value in values], initial=0))
    data = b"".join([value for value in values if value is not None])
    return _of_buffers(kind or pa.binary(), values, [offsets, data])


def texts(values: Iterable[str | None]) -> pa.Array:
    """A column of texts. Raises `TypeError` for what is none, and `ValueError` for what UTF-8 can't say."""
    return binary([None if value is None else _encode(value) for value in values], pa.string())


def numbers(values: Sequence[int | None], kind: pa.DataType) -> pa.Array:
    """A column of integers. Raises `TypeError` for what is none, and `OverflowError` for what is too large."""
    if any(isinstance(value, bool) for value in values):
        raise TypeError("a bool is no number")
    return _of_buffers(kind, values, [array(_CODES[kind], [0 if value is None else value for value in values])])


def lists(values: Sequence[Sequence[str] | None]) -> pa.Array:
    """A column of lists of texts. Raises as `texts`."""
    offsets = array("i", accumulate([len(value or ()) for value in values], initial=0))
    flat = texts([text for value in values for text in value or ()])
    return _of_buffers(pa.list_(pa.string()), values, [offsets], [flat])


def maps(values: Sequence[Mapping[str, str] | None]) -> pa.Array:
    """A column of maps of texts. Raises as `texts`."""
    offsets = array("i", accumulate([len(value or ()) for value in values], initial=0))
    names = texts([name for value in values for name in value or ()])
    held = texts([text for value in values for text in (value or {}).values()])
    return _maps(values, offsets, names, held)


def _maps(values: Sequence[object], offsets: array[int], names: pa.Array, held: pa.Array) -> pa.Array:
    entries = pa.StructArray.from_arrays([names, held], fields=_ENTRY)
    buffers = [_validity(values), pa.py_buffer(offsets)]
    return pa.Array.from_buffers(_MAP, len(offsets) - 1, buffers, children=[entries])


def _of_buffers(
    kind: pa.DataType, values: Sequence[object], data: list[array[int] | bytes], children: list[pa.Array] | None = None
) -> pa.Array:
    buffers = [_validity(values), *map(pa.py_buffer, data)]
    return pa.Array.from_buffers(kind, len(values), buffers, children=children)


def _validity(values: Sequence[object]) -> pa.Buffer | None:
    """A bit for each value that is there; None: all are."""
    if not any(value is None for value in values):
        return None
    bits = bytearray((len(values) + 7) // 8)
    for number, value in enumerate(values):
        if value is not None:
            bits[number >> 3] |= 1 << (number & 7)
    return pa.py_buffer(bytes(bits))
