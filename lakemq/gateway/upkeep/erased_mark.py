"""How many of the log's erasures have been carried out in this folder: a start carries out the others.

The mark is not synced: what it says is on disk before it says so, and one that is lost has a start carry out again what
changes nothing.
"""

from __future__ import annotations

from pathlib import Path

from lakemq.storage.disk.files import Files
from lakemq.storage.disk.sealed import leave_sealed, read_sealed

NAME = "ERASED"


class ErasedMark:
    """That of the broker whose folder this is. Records of erasures are counted by their offsets."""

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._path = directory / NAME

    def read(self, log_id: str) -> int:
        """All below that offset are carried out in that log; 0 where nothing is known: to carry one out again changes
        nothing. Raises `OSError`."""
        try:
            held = read_sealed(self._files, self._path)
            return int(held["end"]) if held is not None and held["log_id"] == log_id else 0
        except (ValueError, KeyError, TypeError):
            return 0

    def leave(self, log_id: str, end: int) -> None:
        """All below that offset are carried out. Raises `OSError`."""
        leave_sealed(self._files, self._path, {"log_id": log_id, "end": end})
