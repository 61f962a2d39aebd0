"""The two records of a redrive, as the bodies of messages: what it is about, and what came of it."""

from __future__ import annotations

import sys
from array import array
from dataclasses import dataclass

import orjson
from pyroaring import BitMap64

from lakemq.model.errors import RedriveNotFound
from lakemq.storage.segment.rows import Row, make_row, value_of

REDRIVE, DRY_RUN, DONE = "redrive", "dry_run", "done"
"""The records' tags."""

PENDING, FAILED = -1, -2
"""In the place of a copy's position: there is none yet; there will be none."""


@dataclass(frozen=True)
class Redrive:
    """What a redrive is about. `since`: where the log ended before its dead letters were looked for;
    no copy of them that isn't theirs lies before."""

    group: str
    where: str | None
    rate_per_s: float
    since: int
    matched: BitMap64
    dry_run: bool = False

    def to_row(self) -> Row:
        """Its first record."""
        header = {"where": self.where, "rate_per_s": self.rate_per_s, "since": self.since}
        body = orjson.dumps(header) + b"\n" + self.matched.serialize()
        return make_row(body=body, tag=DRY_RUN if self.dry_run else REDRIVE, group=self.group)


def redrive_of(row: Row) -> Redrive:
    """What a first record says. Raises `RedriveNotFound` when the row is none."""
    tag, group = value_of(row, "tag"), value_of(row, "group")
    if tag not in (REDRIVE, DRY_RUN):
        raise RedriveNotFound("this message is no redrive")
    head, _, bitmap = value_of(row, "body").partition(b"\n")
    header = orjson.loads(head)
    matched = BitMap64.deserialize(bitmap)
    return Redrive(group, header["where"], header["rate_per_s"], header["since"], matched, tag == DRY_RUN)


def done_row(position: int, group: str, copies: array[int]) -> Row:
    """The second record of the redrive whose first is at `position`: for each matched dead letter,
    in their order, where its copy is, as little-endian 64-bit integers."""
    packed = array("q", copies)
    if sys.byteorder == "big":
        packed.byteswap()
    return make_row(body=packed.tobytes(), tag=DONE, group=group, cause=position)


def copies_of(row: Row) -> array[int]:
    """What a second record says."""
    copies = array("q", value_of(row, "body"))
    if sys.byteorder == "big":
        copies.byteswap()
    return copies
