"""Sets and lists of numbers as text, for state that is JSON."""

from __future__ import annotations

import base64
from array import array
from collections.abc import Iterable

from pyroaring import BitMap64

from lakemq.storage.segment.large_json import to_base64


def pack(positions: BitMap64) -> str:
    """The set as base64 of its portable serialization; an empty set is an empty text."""
    return to_base64(positions.serialize()) if positions else ""


def unpack(text: str) -> BitMap64:
    """The set that `pack` wrote."""
    return BitMap64.deserialize(base64.b64decode(text)) if text else BitMap64()


def pack_numbers(numbers: Iterable[int]) -> str:
    """The numbers as base64 of 64-bit integers: a hundred times faster to make than JSON's."""
    return to_base64(array("q", numbers).tobytes())


def unpack_numbers(text: str) -> list[int]:
    """The numbers that `pack_numbers` wrote."""
    numbers = array("q")
    numbers.frombytes(base64.b64decode(text))
    return numbers.tolist()
