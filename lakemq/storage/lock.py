"""One writer a data directory, held by a lock that the kernel gives back when the process dies."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from pathlib import Path

from lakemq.model.errors import LogInUse


class DirectoryLock:
    """The lock on a data directory. Its file says who holds it."""

    def __init__(self, directory: Path, what: str) -> None:
        """Take the lock; raises `LogInUse`, naming the holder."""
        self._descriptor = os.open(directory / "LOCK", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = _holder(os.pread(self._descriptor, 4096, 0))
            os.close(self._descriptor)
            raise LogInUse(f"{directory} is in use by {holder}; a data directory has one writer") from None
        content = json.dumps({"what": what, "pid": os.getpid(), "host": socket.gethostname()}).encode()
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, content, 0)

    def release(self) -> None:
        """Give the lock back. The file stays: removing it could split the lock in two."""
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)


def _holder(content: bytes) -> str:
    try:
        fields = json.loads(content)
        return f"{fields['what']} (process {fields['pid']} on {fields['host']})"
    except (ValueError, KeyError, TypeError):
        return "another process"
