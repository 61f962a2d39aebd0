"""One writer a data directory, held by a lock that the kernel gives back when the process dies."""

from __future__ import annotations

import json
import os
import socket
from contextlib import suppress
from pathlib import Path

from lakemq.model.errors import LogInUse
from lakemq.storage.disk.files import Files


class DirectoryLock:
    """The lock on a data directory. Its file says who holds it. The directory is locked itself, too: a file can be
    removed, by who takes it for what a crash has left, and the next one would be locked by another writer."""

    def __init__(self, files: Files, directory: Path, what: str) -> None:
        """Take the lock; raises `LogInUse`, naming the holder."""
        self._files = files
        self._descriptor = files.open_update(directory / "LOCK")
        if not files.lock(self._descriptor):
            holder = _holder(files.read(self._descriptor, 4096, 0))
            files.close(self._descriptor)
            raise LogInUse(f"{directory} is in use by {holder}; a data directory has one writer")
        try:
            self._folder = self._lock_folder(directory)
        except BaseException:
            files.close(self._descriptor)
            raise
        content = json.dumps({"what": what, "pid": os.getpid(), "host": socket.gethostname()}).encode()
        with suppress(OSError):  # it is for people: a full disk must not keep a log from being opened
            files.truncate(self._descriptor, 0)
            files.write_at(self._descriptor, content, 0)

    def _lock_folder(self, directory: Path) -> int:
        folder = self._files.lock_folder(directory)
        if folder is None:
            raise LogInUse(
                f"{directory} is in use by another process, whose file LOCK was removed or replaced; a data"
                " directory has one writer"
            )
        return folder

    def release(self) -> None:
        """Give the lock back. The file stays: removing it could split the lock in two."""
        with suppress(OSError):
            self._files.truncate(self._descriptor, 0)
        self._files.close(self._descriptor)
        self._files.close(self._folder)


def _holder(content: bytes) -> str:
    try:
        fields = json.loads(content)
        return f"{fields['what']} (process {fields['pid']} on {fields['host']})"
    except (ValueError, KeyError, TypeError):
        return "another process"
