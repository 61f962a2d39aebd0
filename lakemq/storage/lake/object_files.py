"""As much of `Files` as the lake asks for, in object storage: what is written is lasting when the call returns."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lakemq.objects.path import ObjectPath, is_object
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

    def replace_beside_others(self, path: Path, content: bytes) -> None:
        """The same: an object has no scratch."""
        path.write_bytes(content)

    def create(self, path: Path, content: bytes) -> bool:
        """Where there is nothing; whether there was nothing."""
        return _object(path).create(content)

    def remove(self, path: Path) -> None:
        """What is lacking is no error."""
        path.unlink(missing_ok=True)

    def make_dirs(self, path: Path) -> None:
        """A folder is there when something is in it."""

    def sync_above(self, path: Path) -> None:
        """It is lasting."""

    def size_of(self, path: Path) -> int:
        """In bytes."""
        return path.stat().st_size


def _object(path: Path) -> ObjectPath:
    assert is_object(path)
    return path


def files_of(path: Path) -> Files:
    """By which that path is written."""
    return ObjectFiles() if is_object(path) else Files()
