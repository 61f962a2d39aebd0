"""The one place through which the log's files are touched.

`lakemq.testing` has implementations that fail on demand (`FaultyFiles`) and that lose power
(`LossyFiles`): everything the log says about crashes, full disks and failed flushes is tested
through this seam. What changes the disk is one of the methods under "Single steps"; the others are
made of these, so a crash between any two of them is tested too.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

from lakemq.storage.disk.privacy import DIRECTORY_MODE, FILE_MODE, tighten


class Files:
    """Files of the local file system, by descriptor. All errors are `OSError`."""

    # Single steps ----------------------------------------------------------------------------

    def open_append(self, path: Path) -> int:
        """A descriptor for reads and for writes at the end; the file is made when missing."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, FILE_MODE)

    def open_update(self, path: Path) -> int:
        """A descriptor for reads and `write_at`; the file is made when missing."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)

    def open_read(self, path: Path) -> int:
        """A descriptor for reads."""
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def close(self, descriptor: int) -> None:
        """Give the descriptor back."""
        os.close(descriptor)

    def append(self, descriptor: int, parts: Sequence[bytes | memoryview]) -> int:
        """Write the parts one after the other; returns how many bytes were written, maybe fewer."""
        return os.writev(descriptor, parts)

    def write_at(self, descriptor: int, data: bytes, offset: int) -> None:
        """Write `data` over what is at `offset`, all of it or an error."""
        if os.pwrite(descriptor, data, offset) != len(data):
            raise OSError("the file can't be extended")

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

    def read_at_once(self, descriptor: int, size: int, offset: int) -> bytearray | bytes | None:
        """`read` where the system has all of it in memory; None where a disk may have to be asked, or that can't be
        known."""
        data = bytearray(size)
        try:
            found = os.preadv(descriptor, [data], offset, os.RWF_NOWAIT)
        except OSError:
            return None
        return data if found == size else None

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

    def make_entry(self, path: Path) -> None:
        """Make the directory `path` in one that is there; raises `FileExistsError`."""
        path.mkdir(mode=DIRECTORY_MODE)

    def remove(self, path: Path) -> None:
        """Remove the file; a missing one is no error."""
        path.unlink(missing_ok=True)

    def rename(self, path: Path, other: Path) -> None:
        """Let the file be named `other` only, in place of what had that name: the one or the other, also
        over a crash. On disk once the directory is."""
        path.replace(other)

    def keep(self, path: Path, other: Path) -> None:
        """Let `other` be another name of the same file, in place of what had it."""
        self.remove(other)
        self._link(path, other)

    def link_new(self, path: Path, other: Path) -> None:
        """Let `other` be another name of the same file; raises `FileExistsError` where there is one of that name."""
        self._link(path, other)

    def _link(self, path: Path, other: Path) -> None:
        os.link(path, other)

    def lock(self, descriptor: int) -> bool:
        """Hold the file against all others that want to, until it is closed; False when somebody holds it."""
        with suppress(PermissionError):  # it is another user's, who let us in
            os.fchmod(descriptor, FILE_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def lock_folder(self, path: Path) -> int | None:
        """Hold the directory against all others that want to, until what is returned is closed; None when somebody
        holds it. Where the file system has no such locks, as NFS, nobody is kept out."""
        descriptor = self.open_read(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close(descriptor)
            return None
        except OSError:
            pass
        return descriptor

    def tighten(self, directory: Path, *inner: Path) -> None:
        """Take from other users what they may do with the directory and what is in those `inner`."""
        tighten(directory, *inner)

    def forget_cached(self, descriptor: int) -> None:
        """Have reads ask the disk, as far as the kernel lets go of what it holds of the file in memory."""
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def names(self, path: Path) -> list[str]:
        """The names in a directory, ascending. Raises what keeps it from being read: `Path.glob` finds nothing then."""
        return sorted(os.listdir(path))  # noqa: PTH208  thousands of names, of which nobody needs a path

    def size_of(self, path: Path) -> int:
        """The length of the file of that name, in bytes."""
        return path.stat().st_size

    def still_has(self, descriptor: int, path: Path) -> bool:
        """Whether the open file has that name still. True where that can't be seen now."""
        try:
            named = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        held = os.fstat(descriptor)
        return held.st_nlink > 0 or os.path.samestat(held, named)

    def is_dir(self, path: Path) -> bool:
        """Whether a directory of that name is there."""
        return path.is_dir()

    def exists(self, path: Path) -> bool:
        """Whether the name is there. Raises what keeps that from being seen."""
        try:
            self.size_of(path)
        except FileNotFoundError:
            return False
        return True

    def remove_ending(self, directory: Path, suffixes: str | tuple[str, ...]) -> None:
        """Remove the files in the directory whose names end so."""
        for name in self.names(directory):
            if name.endswith(suffixes):
                self.remove(directory / name)

    def boot_id(self) -> str:
        """Names this run of the machine: as long as it stays, what was written is there, on disk or not."""
        try:
            return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        except OSError:
            return str(uuid4())  # nothing is known: no run is the one before

    def free_bytes(self, path: Path) -> tuple[int, int]:
        """`(free, total)` bytes of the file system, as far as this process may use them: what is kept for root is
        neither, so that it is as full as `df` says."""
        stat = os.statvfs(path)
        kept = stat.f_bfree - stat.f_bavail
        return stat.f_bavail * stat.f_frsize, (stat.f_blocks - kept) * stat.f_frsize

    # Made of these ---------------------------------------------------------------------------

    def read_whole(self, path: Path, size: int | None = None) -> bytes:
        """The file's content, or its first `size` bytes."""
        descriptor = self.open_read(path)
        try:
            return self.read(descriptor, self.size(descriptor) if size is None else size, 0)
        finally:
            self.close(descriptor)

    def append_all(self, descriptor: int, data: bytes | memoryview) -> None:
        """Write the data at the end, all of it or an error, which may leave a part."""
        rest = memoryview(data).cast("B")
        while rest.nbytes:
            step = self.append(descriptor, (rest,))
            if step <= 0:
                raise OSError("the file can't be extended")
            rest = rest[step:]

    def replace(self, path: Path, content: Iterable[bytes | memoryview], durable: bool = True) -> None:
        """Make the file hold `content`, in pieces, whole or not at all, also over a crash of the process; on disk on
        return. Not `durable`: a power cut may leave anything, so only for what has a checksum and can be
        made again. Of one process at a time.

        What a crash leaves behind is a `*.tmp` file that nobody reads, and the next call writes anew.
        """
        scratch = path.with_name(path.name + ".tmp")
        self.remove(scratch)
        self._replace_by(scratch, path, content, durable)

    def replace_beside_others(self, path: Path, content: bytes) -> None:
        """`replace`, durable, where other processes may do the same: of them one's is there, whole.

        What a crash leaves behind is a file `.{name}.*.tmp`, which somebody has to remove some time.
        """
        self._replace_by(path.with_name(f".{path.name}.{uuid4().hex}.tmp"), path, [content], True)

    def _replace_by(self, scratch: Path, path: Path, content: Iterable[bytes | memoryview], durable: bool) -> None:
        try:
            descriptor = self.open_append(scratch)
            try:
                for part in content:
                    self.append_all(descriptor, part)
                if durable:
                    self.sync(descriptor)
            finally:
                self.close(descriptor)
            self.rename(scratch, path)
        except OSError:
            with suppress(OSError):
                self.remove(scratch)
            raise
        if durable:
            self.sync_dir(path.parent)

    def create(self, path: Path, content: bytes) -> bool:
        """Make the file hold `content` where there is none of that name, whole or not at all, also over a crash;
        on disk on return. Whether there was none: of any number of callers one is told so."""
        scratch = path.with_name(f".{path.name}.{uuid4().hex}.tmp")
        try:
            self.replace(scratch, [content])
            self.link_new(scratch, path)
        except FileExistsError:
            return False
        finally:
            self.remove(scratch)
        self.sync_dir(path.parent)
        return True

    def make_dirs(self, path: Path) -> None:
        """Make the directory, and those above it that are missing. `sync_above` brings them to disk."""
        missing: list[Path] = []
        while not self.is_dir(path):
            missing.append(path)
            path = path.parent
        for entry in reversed(missing):
            with suppress(FileExistsError):
                self.make_entry(entry)

    def sync_above(self, path: Path) -> None:
        """Return when the path itself is on disk: its entry, and those of all directories that it is in."""
        for directory in path.absolute().parents:
            with suppress(PermissionError):  # another's: it was there before
                self.sync_dir(directory)
