"""Which files of a table are merged next: many small ones into few, each row only a few times.

A file is of a tier: 0 as a batch wrote it, and one more than the files that it was made of. When a tier has
`files` files, its oldest become one of the next. So of T files that were ever written, fewer than `files` of each of
log(T) / log(`files`) tiers wait, and a row is written again at most once a tier. What has half of `bytes_max` is
done: nobody touches it again, and of what is smaller there always is another that fits beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

TOGETHER_MAX = 64
"""So many files at most are merged at a time, where more than enough wait: each is open meanwhile."""


class TableFile(NamedTuple):
    """A file of a table. `order` says where it is among the others of its tier: those before it have older rows."""

    path: str
    bytes: int
    tier: int
    order: str


class Limits(NamedTuple):
    """`files` of a tier become one, of at most `bytes_max` bytes as far as the bytes stay what they were."""

    files: int
    bytes_max: int

    @property
    def done_bytes(self) -> int:
        """A file of so many bytes is left as it is."""
        return self.bytes_max // 2


class Merge(NamedTuple):
    """These files, in their order, become one of that tier."""

    files: tuple[TableFile, ...]
    tier: int


def next_merge(files: Iterable[TableFile], limits: Limits) -> Merge | None:
    """What to merge now, the lowest tier first: its work is the least, and its files come quickest. None: nothing."""
    for tier, of_tier in groupby(
        sorted(_waiting(files, limits), key=lambda file: file.tier), key=lambda file: file.tier
    ):
        there = sorted(of_tier, key=_order)
        if len(there) >= limits.files:
            return Merge(_fitting(there, limits), tier + 1)
    return None


def merge_all(files: Iterable[TableFile], limits: Limits) -> list[Merge]:
    """As few files as may be of what isn't done, whatever its tier; one after the other, each once."""
    left = sorted(_waiting(files, limits), key=_order)
    merges: list[Merge] = []
    while left:
        chosen = _fitting(left, limits)
        left = left[len(chosen) :]
        if len(chosen) > 1:
            merges.append(Merge(chosen, max(file.tier for file in chosen) + 1))
    return merges


def unfinished(files: Iterable[TableFile], limits: Limits) -> int:
    """How many files will be merged some day."""
    return len(_waiting(files, limits))


def _waiting(files: Iterable[TableFile], limits: Limits) -> list[TableFile]:
    return [file for file in files if file.bytes < limits.done_bytes]


def _order(file: TableFile) -> tuple[str, str]:
    return file.order, file.path


def _fitting(ordered: Sequence[TableFile], limits: Limits) -> tuple[TableFile, ...]:
    """The first of them that one file has room for. There are two at least, where there are two, as each has less
    than half of it."""
    held = 0
    for count, file in enumerate(ordered[:TOGETHER_MAX]):
        held += file.bytes
        if held > limits.bytes_max:
            return tuple(ordered[:count])
    return tuple(ordered[:TOGETHER_MAX])
