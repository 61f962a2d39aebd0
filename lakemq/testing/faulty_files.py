"""Files that fail on demand."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from lakemq.storage.disk.files import Files


class FaultyFiles(Files):
    """Real files that fail on demand.

    `room_bytes`: so many bytes can still be appended, the next one is `ENOSPC`, after as much was
    written as fits; None: no limit. `fail_sync`: the next fsync fails with `EIO`, and so do all
    later ones.
    `fail_truncate`: so does cutting files. `fail_replace`: so does writing whole files,
    which leaves the old content. `fail_read`: the errno that all reads fail with.
    `boots`: the machine was started so often.
    """

    def __init__(self) -> None:
        self.room_bytes: int | None = None
        self.fail_sync = False
        self.fail_truncate = False
        self.fail_replace = False
        self.fail_read: int | None = None
        self.syncs = 0
        self.boots = 0

    def append(self, descriptor: int, parts: Sequence[bytes | memoryview]) -> int:
        if self.room_bytes is None:
            return super().append(descriptor, parts)
        data = b"".join(bytes(part) for part in parts)[: self.room_bytes]
        if not data:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = super().append(descriptor, (data,))
        self.room_bytes -= written
        return written

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        if self.fail_read is not None:
            raise OSError(self.fail_read, os.strerror(self.fail_read))
        return super().read(descriptor, size, offset)

    def read_at_once(self, descriptor: int, size: int, offset: int) -> bytearray | bytes | None:
        return None if self.fail_read is not None else super().read_at_once(descriptor, size, offset)

    def sync(self, descriptor: int) -> None:
        self.syncs += 1
        if self.fail_sync:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        if self.fail_truncate:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().truncate(descriptor, size)

    def replace(self, path: Path, content: Iterable[bytes | memoryview], durable: bool = True) -> None:
        if self.fail_replace:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().replace(path, content, durable)

    def boot_id(self) -> str:
        return f"boot {self.boots}"

    def free_bytes(self, path: Path) -> tuple[int, int]:
        free, total = super().free_bytes(path)
        return (free, total) if self.room_bytes is None else (min(free, self.room_bytes), total)
