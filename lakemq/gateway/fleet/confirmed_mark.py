"""How far the log was confirmed when that was last looked at: what a start may show before it has asked anybody.

The mark is not synced, so it may be behind, or lost; what it says is on the disks of all that counted. One that a power
cut has torn says nothing of how far, but that there was a mark: so nothing is shown by it.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple

from lakemq.storage.disk.files import Files
from lakemq.storage.disk.sealed import leave_sealed, read_sealed, write_sealed

logger = logging.getLogger(__name__)
NAME = "CONFIRMED"


class Mark(NamedTuple):
    """`sync`: whether consumers see no more than that."""

    position: int
    sync: bool


NO_MARK = Mark(0, False)
TORN = Mark(0, True)


class ConfirmedMark:
    """That of the broker whose folder this is."""

    def __init__(self, files: Files, directory: Path) -> None:
        self._files = files
        self._path = directory / NAME
        self._last: Mark | None = None

    def read(self, log_id: str) -> Mark:
        """What is known of that log; `NO_MARK`: nothing; `TORN`: not any more. Raises `OSError`."""
        try:
            held = read_sealed(self._files, self._path)
            if held is None or held["log_id"] != log_id:
                return NO_MARK
            return Mark(int(held["position"]), bool(held["sync"]))
        except (ValueError, KeyError, TypeError):
            return TORN

    def known(self, log_id: str) -> int | None:
        """How far that log is known to be confirmed; None: all of it is that is on disk here, as no other replica ever
        counted. Raises `OSError`."""
        mark = self.read(log_id)
        return None if mark == NO_MARK else mark.position

    def leave(self, log_id: str, mark: Mark) -> None:
        """Say it. What consumers may see is on disk on return; how far the log is confirmed need not be."""
        if mark == self._last:
            return
        is_new = self._last is None or self._last.sync != mark.sync
        try:
            (write_sealed if is_new else leave_sealed)(self._files, self._path, {"log_id": log_id, **mark._asdict()})
        except OSError as error:
            logger.warning("can't store the confirmed position: %s", error)
        else:
            self._last = mark
