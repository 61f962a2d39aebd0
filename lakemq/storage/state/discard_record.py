"""Discards as they stand in the log: a JSON message in `DISCARD_TOPIC` says which dead letters are given up for good.

`{"where": …, "by": …, "ranges": [[first, last], …]}`, with positions; `where` is the predicate that chose them, or
null, and `by` the name of who asked.
"""

from __future__ import annotations

from collections.abc import Iterable

import orjson
from pyroaring import BitMap64

LETTERS_MAX = 2_000
"""Of one record: where no two are neighbours, all are entered within some milliseconds."""


def to_body(where: str | None, by: str, positions: Iterable[int]) -> bytes:
    """The record of these positions, which ascend."""
    ranges: list[list[int]] = []
    for position in positions:
        if ranges and ranges[-1][1] == position - 1:
            ranges[-1][1] = position
        else:
            ranges.append([position, position])
    return orjson.dumps({"where": where, "by": by, "ranges": ranges})


def positions_of(body: bytes) -> BitMap64:
    """The positions of a record."""
    found = BitMap64()
    for first, last in orjson.loads(body)["ranges"]:
        found.add_range(first, last + 1)
    return found
