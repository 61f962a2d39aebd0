"""What a read passes over: offsets or positions that hold no message any more, erased or lost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from lakemq.storage.lake.cold_rows import ColdSlice
from lakemq.storage.segment.slice import Slice

Range = tuple[int, int]
HEADER_RANGES_MAX = 128


class Gap(NamedTuple):
    """Offsets `begin` ≤ o < `end` of a queue that hold no message any more."""

    topic: str
    queue_id: int
    begin: int
    end: int


def offsets_without(slices: Sequence[Slice | ColdSlice], begin: int, end: int) -> list[Range]:
    """The offsets `begin ≤ o < end` of the slices' queue that none of their messages has, as `[first, after)`. The
    slices begin there, and may go on after that."""
    if sum([part.count for part in slices]) == end - begin and (not slices or slices[-1].end_queue_offset <= end):
        return []
    return list(_between((each for part in slices for each in _offsets(part) if each[0] < end), begin, end))


def positions_without(slices: Sequence[Slice], begin: int, end: int) -> list[Range]:
    """The positions `begin ≤ p < end` that none of the messages has, which are all that there are."""
    if sum([part.count for part in slices]) == end - begin:
        return []
    return list(_between(((part.first_position, part.first_position + part.count) for part in slices), begin, end))


def joined(before: Sequence[Range], after: Sequence[Range]) -> list[Range]:
    """Ranges, and those that come after them: what touches there is one."""
    if before and after and before[-1][1] == after[0][0]:
        return [*before[:-1], (before[-1][0], after[0][1]), *after[1:]]
    return [*before, *after]


def to_header(holes: Sequence[Range]) -> bytes:
    """The ranges as a header has them: first and last, `3-7,9-9`; `more` ends it where there are too many."""
    shown = [f"{first}-{after - 1}" for first, after in holes[:HEADER_RANGES_MAX]]
    return ",".join([*shown, *["more"] * (len(holes) > HEADER_RANGES_MAX)]).encode()


def _offsets(part: Slice | ColdSlice) -> Iterator[Range]:
    if isinstance(part, Slice):
        yield part.first_queue_offset, part.end_queue_offset
    else:
        for offset in part.batch.column("queue_offset").to_pylist():
            yield offset, offset + 1


def _between(there: Iterable[Range], begin: int, end: int) -> Iterator[Range]:
    at = begin
    for first, after in there:
        if first > at:
            yield at, first
        at = max(at, after)
    if at < end:
        yield at, end
