"""What left a log before the lake was known to hold it, as it was full (`storage.when_full = "drop_oldest"`).

The ranges stand in the file `DROPPED`, which is on disk before anything of them goes: by it a gap is told from a
lake that has lost what it held. A crash in between leaves a range of what is still there: the next start takes
that back. A file that can't be read is as none: then readers of the lake are refused, and pass over nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path

from crc32c import crc32c

from lakemq.storage.disk.files import Files

logger = logging.getLogger(__name__)

DROPPED = "DROPPED"
RANGES_MAX = 1_000
"""So many are told apart. Of more, the oldest two are one with what is between, which is in the lake all the same."""

Range = tuple[int, int]
"""Positions `begin ≤ p < end`."""


def covers(ranges: Sequence[Range], begin: int, end: int) -> bool:
    """Whether all positions from `begin` on, below `end`, are in one of the ranges; also where that is none."""
    return begin >= end or any(first <= begin and end <= after for first, after in ranges)


def read_dropped(files: Files, directory: Path) -> list[Range]:
    """The ranges of the log in the directory, ascending."""
    try:
        data = files.read_whole(directory / DROPPED)
    except FileNotFoundError:
        return []
    checksum, _, body = data.partition(b" ")
    if checksum != b"%08x" % crc32c(body):
        logger.error("can't read %s in %s: it is not known what was dropped from the log", DROPPED, directory)
        return []
    return [(begin, end) for begin, end in json.loads(body)]


class Dropped:
    """The ranges of one log, ascending; the last one may reach to where the log begins."""

    def __init__(self, files: Files, directory: Path) -> None:
        self._files, self._directory = files, directory
        self._is_stale = False
        self.ranges: list[Range] = []
        self.positions = 0
        """How many were dropped since the process began."""

    def open(self, min_position: int) -> None:
        """Read what was dropped of a log that begins there. Raises `OSError`."""
        self.ranges = read_dropped(self._files, self._directory)
        self.take_back(min_position)

    def take_back(self, min_position: int) -> None:
        """What is in the log, which begins there, was not dropped."""
        known = self.ranges
        self.ranges = [(begin, min(end, min_position)) for begin, end in known if begin < min_position]
        self._is_stale = self._is_stale or self.ranges != known

    def add(self, begin: int, end: int) -> None:
        """These positions, which follow the others, are about to go; on disk on return. Raises `OSError`, and then
        nothing is added."""
        count, ranges = end - begin, list(self.ranges)
        if ranges and ranges[-1][1] >= begin:
            begin = ranges.pop()[0]
        ranges.append((begin, end))
        if len(ranges) > RANGES_MAX:
            ranges[:2] = [(ranges[0][0], ranges[1][1])]
        self._write(ranges)
        self.positions += count

    def settle(self) -> None:
        """To be called before anything else leaves the log: what a crash left in the file, and was not dropped, must
        not come to be below the log's begin. Raises `OSError`."""
        if self._is_stale:
            self._write(self.ranges)

    def held(self, min_position: int) -> int:
        """Up to where the lake must hold the log, which begins at `min_position`."""
        if self.ranges and self.ranges[-1][1] >= min_position:
            return min(self.ranges[-1][0], min_position)
        return min_position

    def _write(self, ranges: list[Range]) -> None:
        path = self._directory / DROPPED
        if ranges:
            body = json.dumps(ranges, separators=(",", ":")).encode()
            self._files.replace(path, [b"%08x " % crc32c(body), body])
        else:
            self._files.remove(path)
            self._files.sync_dir(self._directory)
        self.ranges, self._is_stale = ranges, False
