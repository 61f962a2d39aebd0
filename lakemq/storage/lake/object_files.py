"""As much of `Files` as the lake asks for, in object storage: what is written is lasting when the call returns."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lakemq.objects.path import is_object
from lakemq.storage.disk.files import Files


class ObjectFiles(Files):
    """Of `ObjectPath`s."""

    def open_read(self, path: Path) -> int:
        """No descriptor; raises `FileNotFoundError` where there is nothing."""
        path.stat()
        return -1

    def close(self, descriptor: int) -> None:
        """Nothing was opened."""

    def sync(self, descriptor: int) -> None:
        """It is lasting."""

    def sync_dir(self, path: Path) -> None:
        """It is lasting."""

    def replace(self, path: Path, content: Iterable[bytes | memoryview], durable: bool = True) -> None:
        """The old content, or all of the new."""
        path.write_bytes(b"".join(content))

    def size_of(self, path: Path) -> int:
        """In bytes."""
        return path.stat().st_size


def files_of(path: Path) -> Files:
    """By which that path is written."""
    return ObjectFiles() if is_object(path) else Files()
