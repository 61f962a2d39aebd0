"""How much of which segment was on disk last, in a file of its own.

The mark is written after each flush, without one of its own: it outlives a crash of the process,
and after a crash of the machine it may be behind, never ahead. Recovery refuses to take bytes below
it for a torn tail.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path

from crc32c import crc32c

_MARK = struct.Struct("<QQ")
_SUM = struct.Struct("<I")
NAME = "FLUSHED"


class FlushMark:
    """The mark of one log's directory."""

    def __init__(self, directory: Path) -> None:
        self._descriptor = os.open(directory / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def set(self, base_position: int, size: int) -> None:
        """Say that `size` bytes of the segment with that base are on disk."""
        mark = _MARK.pack(base_position, size)
        os.pwrite(self._descriptor, mark + _SUM.pack(crc32c(mark)), 0)

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self._descriptor)


def read_flush_mark(directory: Path, base_position: int) -> int:
    """How many bytes of that segment were on disk for certain; 0 when nothing is known."""
    try:
        data = (directory / NAME).read_bytes()
    except FileNotFoundError:
        return 0
    mark, checksum = data[: _MARK.size], data[_MARK.size :]
    if len(data) != _MARK.size + _SUM.size or _SUM.pack(crc32c(mark)) != checksum:
        return 0
    base, size = _MARK.unpack(mark)
    return size if base == base_position else 0
