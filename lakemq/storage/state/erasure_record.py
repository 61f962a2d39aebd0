"""Erasures as they stand in the log: a JSON message in `ERASURE_TOPIC` says which positions are to be in no replica's
files any more. `docs/log_format.md`, "Erasing", says who carries them out, and when."""

from __future__ import annotations

from collections.abc import Iterable

import orjson
from pyroaring import BitMap64

Range = tuple[int, int]
"""Positions `begin ≤ p < end`."""
ERASE = "erase"
"""The record's `op`."""


def merge_ranges(ranges: Iterable[Range], begin: int, end: int) -> list[Range]:
    """The same positions in as few ranges as can be, ascending; of these only `begin ≤ p < end`."""
    merged: list[Range] = []
    for first, after in sorted(ranges):
        first, after = max(first, begin), min(after, end)
        if first >= after:
            continue
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(after, merged[-1][1])
        else:
            merged.append((first, after))
    return merged


def to_bitmap(ranges: Iterable[Range]) -> BitMap64:
    """These positions."""
    positions = BitMap64()
    for begin, end in ranges:
        positions.add_range(begin, end)
    return positions


def pack_erasure(ranges: list[Range]) -> bytes:
    """The body of a record."""
    return orjson.dumps({"op": ERASE, "ranges": ranges})


def unpack_erasure(body: bytes) -> BitMap64:
    """The positions that `pack_erasure` wrote."""
    return to_bitmap((begin, end) for begin, end in orjson.loads(body)["ranges"])
