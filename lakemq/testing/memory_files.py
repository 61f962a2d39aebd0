"""Files in memory: a log without a disk."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

from lakemq.storage.disk.files import Files

_FIRST_DESCRIPTOR = 1 << 30
"""No descriptor of the system's: what mixes them up fails."""


class MemoryFiles(Files):
    """A file system of its own, which goes when the object does. Any thread may use it."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._files: dict[Path, bytearray] = {}
        self._folders: set[Path] = {Path("/"), Path()}
        self._open: dict[int, bytearray] = {}
        self._next = _FIRST_DESCRIPTOR
        self._boot_id = str(uuid4())

    @property
    def size_bytes(self) -> int:
        """Of all files that have a name."""
        with self._turn:
            return sum(len(content) for content in {id(each): each for each in self._files.values()}.values())

    # Descriptors -----------------------------------------------------------------------------

    def open_append(self, path: Path) -> int:
        return self._opened(path, makes=True)

    def open_update(self, path: Path) -> int:
        return self._opened(path, makes=True)

    def open_read(self, path: Path) -> int:
        return self._opened(path, makes=False)

    def _opened(self, path: Path, *, makes: bool) -> int:
        with self._turn:
            content = self._files.get(path)
            if path in self._folders:
                raise _error(errno.EISDIR, path)
            if content is None:
                if not makes or path.parent not in self._folders:
                    raise _error(errno.ENOENT, path)
                content = self._files[path] = bytearray()
            self._next += 1
            self._open[self._next] = content
            return self._next

    def close(self, descriptor: int) -> None:
        with self._turn:
            if self._open.pop(descriptor, None) is None:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def _content(self, descriptor: int) -> bytearray:
        content = self._open.get(descriptor)
        if content is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return content

    def append(self, descriptor: int, parts: Sequence[bytes | memoryview]) -> int:
        with self._turn:
            content = self._content(descriptor)
            before = len(content)
            for part in parts:
                content += part
            return len(content) - before

    def write_at(self, descriptor: int, data: bytes, offset: int) -> None:
        with self._turn:
            content = self._content(descriptor)
            if not data:
                return  # as with a file, nothing doesn't lengthen it
            content.extend(bytes(max(0, offset - len(content))))
            content[offset : offset + len(data)] = data

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        with self._turn:
            return bytes(self._content(descriptor)[offset : offset + size])

    def read_at_once(self, descriptor: int, size: int, offset: int) -> bytearray | bytes | None:
        return self.read(descriptor, size, offset)

    def size(self, descriptor: int) -> int:
        with self._turn:
            return len(self._content(descriptor))

    def truncate(self, descriptor: int, size: int) -> None:
        with self._turn:
            content = self._content(descriptor)
            content.extend(bytes(max(0, size - len(content))))
            del content[size:]

    def sync(self, descriptor: int) -> None:
        """There is nothing that could be lost later than the memory."""

    def lock(self, descriptor: int) -> bool:
        """Nobody else has these files."""
        return True

    def lock_folder(self, path: Path) -> int | None:
        """As `lock`."""
        with self._turn:
            self._check_folder(path)
            self._next += 1
            self._open[self._next] = bytearray()
            return self._next

    def still_has(self, descriptor: int, path: Path) -> bool:
        with self._turn:
            return self._files.get(path) is self._content(descriptor)

    def forget_cached(self, descriptor: int) -> None:
        """What is in memory is all there is."""

    # Names -----------------------------------------------------------------------------------

    def sync_dir(self, path: Path) -> None:
        """As `sync`."""

    def make_entry(self, path: Path) -> None:
        with self._turn:
            if path in self._folders or path in self._files:
                raise _error(errno.EEXIST, path)
            if path.parent not in self._folders:
                raise _error(errno.ENOENT, path)
            self._folders.add(path)

    def remove(self, path: Path) -> None:
        with self._turn:
            if path in self._folders:
                raise _error(errno.EISDIR, path)
            self._files.pop(path, None)

    def rename(self, path: Path, other: Path) -> None:
        with self._turn:
            if path not in self._files:
                raise _error(errno.ENOENT, path)
            self._files[other] = self._files.pop(path)

    def _link(self, path: Path, other: Path) -> None:
        with self._turn:
            if path not in self._files:
                raise _error(errno.ENOENT, path)
            if other in self._files:
                raise _error(errno.EEXIST, other)
            self._files[other] = self._files[path]

    def names(self, path: Path) -> list[str]:
        with self._turn:
            self._check_folder(path)
            return sorted(each.name for each in [*self._files, *self._folders] if each.parent == path != each)

    def _check_folder(self, path: Path) -> None:
        if path not in self._folders:
            raise _error(errno.ENOTDIR if path in self._files else errno.ENOENT, path)

    def size_of(self, path: Path) -> int:
        with self._turn:
            if path in self._folders:
                return 0
            if path not in self._files:
                raise _error(errno.ENOENT, path)
            return len(self._files[path])

    def is_dir(self, path: Path) -> bool:
        return path in self._folders

    def tighten(self, directory: Path, *inner: Path) -> None:
        """No other user can have them."""

    def boot_id(self) -> str:
        return self._boot_id

    def free_bytes(self, path: Path) -> tuple[int, int]:
        """As much as nobody needs: `storage.log_bytes_max` bounds the log."""
        return 1 << 40, 1 << 40


def _error(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))
