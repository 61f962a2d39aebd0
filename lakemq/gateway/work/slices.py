"""Parts of slices: what matches, and the first so many."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from lakemq.storage.lake.cold_rows import ColdSlice
from lakemq.storage.segment.slice import Slice

Part = TypeVar("Part", Slice, ColdSlice)


def stretches(part: Part, matches: Iterable[bool]) -> list[Part]:
    """The stretches of the slice whose rows match, as `matches` says of each row."""
    found: list[Part] = []
    begin: int | None = None
    for number, match in enumerate([*matches, False]):
        if match and begin is None:
            begin = number
        elif not match and begin is not None:
            found.append(part._replace(row=part.row + begin, count=number - begin))
            begin = None
    return found


def first_of(slices: list[Part], messages_max: int, reached: int) -> tuple[list[Part], int]:
    """The first `messages_max` messages of the slices, and the offset after them, or `reached` when
    these are all."""
    left = messages_max
    chosen: list[Part] = []
    for part in slices:
        if part.count > left:
            if left:
                chosen.append(part._replace(count=left))
            break
        chosen.append(part)
        left -= part.count
    else:
        return chosen, reached
    return chosen, chosen[-1].end_queue_offset
