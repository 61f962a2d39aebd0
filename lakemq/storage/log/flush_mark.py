"""How much of which segment was on disk last, in a file of its own.

The mark is written after each flush, without one of its own: it outlives a crash of the process,
and after a crash of the machine it may be behind, never ahead. Recovery refuses to take bytes below
it for a torn tail.
"""

from __future__ import annotations

import logging
import struct
from pathlib import Path
from typing import NamedTuple

from crc32c import crc32c

from lakemq.storage.disk.files import Files
from lakemq.storage.segment.segment import Segment

logger = logging.getLogger(__name__)
_MARK = struct.Struct("<QQ36s")
_SUM = struct.Struct("<I")
NAME = "FLUSHED"


class FlushMark:
    """The mark of one log's directory."""

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._boot = files.boot_id().encode()
        self._descriptor = files.open_update(directory / NAME)

    def set(self, segment: Segment, size: int) -> None:
        """Say that `size` bytes of the segment are on disk: here, and in the frames to come."""
        segment.flushed_bytes = size
        mark = _sealed(segment.base_position, size, self._boot)
        try:
            self._files.write_at(self._descriptor, mark, 0)
        except OSError as error:
            # The flush itself went well: a full disk must not make it a failed one.
            logger.warning("can't write how far the log is flushed: %s", error)

    def close(self) -> None:
        """Give the descriptor back."""
        self._files.close(self._descriptor)


class Mark(NamedTuple):
    """`size` bytes of the segment that begins with `base_position` were on disk for certain."""

    base_position: int
    size: int
    boot: str
    """Of the start of the machine in which that was so."""


NO_MARK = Mark(0, 0, "")


def read_flush_mark(files: Files, directory: Path) -> Mark:
    """The mark as it was left; `NO_MARK` when nothing is known."""
    try:
        data = files.read_whole(directory / NAME)
    except FileNotFoundError:
        return NO_MARK
    mark, checksum = data[: _MARK.size], data[_MARK.size :]
    if len(data) != _MARK.size + _SUM.size or _SUM.pack(crc32c(mark)) != checksum:
        return NO_MARK
    base_position, size, boot = _MARK.unpack(mark)
    return Mark(base_position, size, boot.rstrip(b"\0").decode())


def lower_flush_mark(files: Files, directory: Path, base_position: int, size: int) -> None:
    """Have the mark say no more than that so much of that segment was on disk: later ones go, and what follows there.
    On disk once the directory is, or a power cut leaves no mark; raises `OSError`."""
    mark = read_flush_mark(files, directory)
    if mark != NO_MARK and (mark.base_position, mark.size) > (base_position, size):
        # A segment is on disk whole before the next one begins.
        files.replace(directory / NAME, [_sealed(base_position, size, mark.boot.encode())], durable=False)


def _sealed(base_position: int, size: int, boot: bytes) -> bytes:
    mark = _MARK.pack(base_position, size, boot)
    return mark + _SUM.pack(crc32c(mark))
