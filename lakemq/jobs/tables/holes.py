"""The table `log_holes`: positions that hold no message any more, erased, lost or dropped, as ranges.

And those of erasures that have begun: where one was cut short, the messages are still there, and can be lost later.
Who was erased is not in it, only where. Written and read without Spark.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from lakemq.jobs.log_client import LogClient, Subscription
from lakemq.jobs.tables.schemas import HOLES, SCHEMAS
from lakemq.objects.path import delta_options
from lakemq.objects.table_place import delta_place
from lakemq.storage.disk.clock import SystemClock
from lakemq.storage.lake.delta_log import is_made

ERASED, LOST, DROPPED = "erased", "lost", "dropped"
ERASING = "erasing"
"""The logs were about to be asked: says that what a log lacks there went on purpose, and excuses no table."""


class Hole(NamedTuple):
    """Positions `first` to `last`, both inclusive."""

    first: int
    last: int


class Holes:
    """The holes of one broker's log, merged and in order."""

    def __init__(self, holes: Iterable[Hole] = ()) -> None:
        self._holes: list[Hole] = []
        for hole in sorted(holes):
            if self._holes and hole.first <= self._holes[-1].last + 1:
                last = self._holes.pop()
                hole = Hole(last.first, max(last.last, hole.last))
            self._holes.append(hole)
        self._ends = [hole.last for hole in self._holes]

    def __iter__(self) -> Any:
        return iter(self._holes)

    def count_between(self, after: int, before: int) -> int:
        """How many positions p with after < p < before are in a hole."""
        count, at = 0, bisect_right(self._ends, after)
        while at < len(self._holes) and self._holes[at].first < before:
            hole = self._holes[at]
            count += max(0, min(hole.last, before - 1) - max(hole.first, after + 1) + 1)
            at += 1
        return count

    def between(self, begin: int, end: int) -> list[Hole]:
        """Those with a position from `begin` on, below `end`."""
        found, at = list[Hole](), bisect_left(self._ends, begin)
        while at < len(self._holes) and self._holes[at].first < end:
            found.append(self._holes[at])
            at += 1
        return found

    def positions(self, begin: int, end: int) -> list[int]:
        """Each position from `begin` on, below `end`, that is in a hole."""
        found = list[int]()
        for hole in self.between(begin, end):
            found += range(max(hole.first, begin), min(hole.last + 1, end))
        return found


def ranges_of(positions: Iterable[int]) -> list[Hole]:
    """Single positions as ranges."""
    return list(Holes(Hole(position, position) for position in positions))


def read_holes(lake: Path, broker: str) -> list[Hole]:
    """All that is known of this broker's log, but for what was only about to be erased."""
    return [hole for hole, kind in _read(lake, broker) if kind != ERASING]


def read_begun(lake: Path, broker: str) -> list[Hole]:
    """What was to be erased of this broker's log, whether it was or not."""
    return [hole for hole, kind in _read(lake, broker) if kind == ERASING]


def _read(lake: Path, broker: str) -> list[tuple[Hole, str]]:
    if not is_made(lake / HOLES):
        return []
    table = DeltaTable(delta_place(lake / HOLES), storage_options=delta_options(lake))
    rows = table.to_pyarrow_table(filters=[("broker", "=", broker)])
    return [(Hole(row["first_position"], row["last_position"]), row["kind"]) for row in rows.to_pylist()]


def append_holes(lake: Path, broker: str, holes: Sequence[Hole], kind: str) -> None:
    """Adds what is not known yet; makes the table where there is none."""
    known = Holes(hole for hole, of in _read(lake, broker) if of != ERASING or kind == ERASING)
    new = [hole for hole in holes if known.count_between(hole.first - 1, hole.last + 1) <= hole.last - hole.first]
    if not new:
        return
    now = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
    rows = [
        {"broker": broker, "first_position": hole.first, "last_position": hole.last, "kind": kind, "seen_at": now}
        for hole in new
    ]
    table = pa.Table.from_pylist(rows, SCHEMAS[HOLES])
    write_deltalake(delta_place(lake / HOLES), table, mode="append", storage_options=delta_options(lake))


def rename_holes(lake: Path, broker: str, name: str) -> None:
    """Has what is known of that broker's log be known of `name`'s; again it does nothing."""
    if not _read(lake, broker):
        return
    table = DeltaTable(delta_place(lake / HOLES), storage_options=delta_options(lake))
    table.update(predicate=f"broker = '{broker}'", updates={"broker": f"'{name}'"})  # brokers' names have no quotes


def holes_of_log(client: LogClient, begin: int, end: int, log_id: str) -> list[Hole]:
    """The positions from `begin` on, below `end`, at which the log has no message. Raises `LogReplaced` when it is
    another log than that one, unless that is empty."""
    holes: list[Hole] = []
    due, at = begin, begin
    while at < end:
        page, at = client.messages(at, end, Subscription(), ["position"], log_id)
        for position in page["position"].to_pylist():
            if position > due:
                holes.append(Hole(due, position - 1))
            due = position + 1
    if due < end:
        holes.append(Hole(due, end - 1))
    return holes
