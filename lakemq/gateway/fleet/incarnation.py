"""Which stretch of a follower's life this is: what it has said of its disk counts for that one alone.

A stretch ends where the disk may have lost what was not synced: with any end that is no clean stop. A clean stop has
all of the log on disk, and says how much that is; who finds just that goes on as before.
"""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

from lakemq.storage.disk.files import Files
from lakemq.storage.disk.sealed import read_sealed, write_sealed

NAME = "REPLICA"


class Incarnation:
    """That of a follower whose folder that is."""

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._path = directory / NAME
        self.name = ""

    def begin(self, log_id: str, end: int) -> None:
        """Go on, or begin anew, with that log as it was found, up to `end`. On disk on return, before anything is said
        in its name. Raises `OSError`."""
        try:
            held = read_sealed(self._files, self._path) or {}
        except ValueError:
            held = {}
        goes_on = held.get("log_id") == log_id and held.get("clean_end") == end
        self.name = str(held["incarnation"]) if goes_on else uuid4().hex[:16]
        self._write(log_id, None)

    def end(self, log_id: str, end: int) -> None:
        """It stops cleanly: all of the log, up to `end`, is on disk. Raises `OSError`."""
        if self.name:
            self._write(log_id, end)

    def _write(self, log_id: str, clean_end: int | None) -> None:
        held = {"incarnation": self.name, "log_id": log_id, "clean_end": clean_end}
        write_sealed(self._files, self._path, held)
