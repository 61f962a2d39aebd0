"""Putting another file in a sealed segment's place while the log is read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.read.reader import Reader
from lakemq.storage.segment.segment import Segment

OLD_KEPT_S = 60.0
"""So long a reader that had planned before may go on reading the old file."""


class Replacing:
    """Replaces segments of one log, one at a time. Lives on the log's event loop."""

    def __init__(self, log: CommitLog, reader: Reader) -> None:
        self._log = log
        self._reader = reader
        self.turn = asyncio.Lock()
        """Held by whoever writes segments anew."""

    async def replace(
        self, old: Segment, new: Segment, before: Callable[[], object], rename: Callable[[], object]
    ) -> bool:
        """Let `new`, whose file is on disk beside that of `old`, take its place, on disk on return. False when the old
        one left the log meanwhile.

        Who has planned reads the old one on. `before` is called in a thread, and brings to disk what must be there
        before the new file has its name, which `rename` gives it. Raises `OSError`.
        """
        log = self._log
        old.index = old.index or self._reader.known_index(old)
        if log.files.exists(old.path):
            old.open()
        await asyncio.to_thread(before)
        if old not in log.segments:  # retention was faster
            return False
        rename()
        log.segments[log.segments.index(old)] = new
        self._reader.forget(old)
        asyncio.get_running_loop().call_later(OLD_KEPT_S, old.close)
        await asyncio.to_thread(self._sync_names)
        return True

    def _sync_names(self) -> None:
        self._log.files.sync_dir(self._log.directory)
