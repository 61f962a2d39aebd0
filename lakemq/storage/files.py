"""The one place through which the log's files are touched.

`lakemq.testing.FaultyFiles` is an implementation that fails on demand: everything the log says
about crashes, full disks and failed flushes is tested through this seam.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path


class Files:
    """Files of the local file system, by descriptor. All errors are `OSError`."""

    def open_append(self, path: Path) -> int:
        """A descriptor for reads and for writes at the end; the file is made when missing."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def open_read(self, path: Path) -> int:
        """A descriptor for reads."""
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def close(self, descriptor: int) -> None:
        """Give the descriptor back."""
        os.close(descriptor)

    def append(self, descriptor: int, parts: Sequence[bytes | memoryview]) -> int:
        """Write the parts one after the other; returns how many bytes were written, maybe fewer."""
        return os.writev(descriptor, parts)

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        """Up to `size` bytes from `offset`: fewer only at the end of the file."""
        data = os.pread(descriptor, size, offset)
        if len(data) in (size, 0):
            return data
        pieces = [data]
        at = offset + len(data)
        while at < offset + size:
            data = os.pread(descriptor, offset + size - at, at)
            if not data:
                break
            pieces.append(data)
            at += len(data)
        return b"".join(pieces)

    def size(self, descriptor: int) -> int:
        """The file's length in bytes."""
        return os.fstat(descriptor).st_size

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut the file to `size` bytes."""
        os.ftruncate(descriptor, size)

    def sync(self, descriptor: int) -> None:
        """Return when the file's data, and the size needed to read it, are on disk."""
        os.fdatasync(descriptor)

    def sync_dir(self, path: Path) -> None:
        """Return when the directory's entries are on disk."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def replace(self, path: Path, content: Sequence[bytes | memoryview]) -> None:
        """Make the file hold `content`, whole or not at all, also over a crash; on disk on return.

        What a crash leaves behind is a `*.tmp` file that nobody reads.
        """
        scratch = path.with_name(path.name + ".tmp")
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            try:
                for part in content:
                    view = memoryview(part)
                    while view.nbytes:
                        view = view[os.write(descriptor, view) :]
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            scratch.replace(path)
        except OSError:
            with suppress(OSError):
                scratch.unlink()
            raise
        self.sync_dir(path.parent)

    def remove(self, path: Path) -> None:
        """Remove the file; a missing one is no error."""
        path.unlink(missing_ok=True)

    def rename(self, path: Path, other: Path) -> None:
        """Let the file be named `other` only, in place of what had that name: the one or the other, also
        over a crash. On disk once the directory is."""
        path.replace(other)

    def keep(self, path: Path, other: Path) -> None:
        """Let `other` be another name of the same file, in place of what had it."""
        other.unlink(missing_ok=True)
        os.link(path, other)

    def salt(self) -> int:
        """32 random bits, for a new segment."""
        return int.from_bytes(os.urandom(4), "little")

    def free_bytes(self, path: Path) -> tuple[int, int]:
        """`(free, total)` bytes of the file system, as far as this process may use them."""
        stat = os.statvfs(path)
        return stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize
