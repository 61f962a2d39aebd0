"""Copying files so that they are on disk, with their checksums."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from lakemq.storage.backup.manifest import BadBackup, Copied
from lakemq.storage.disk.files import Files

CHUNK_BYTES = 4 * 1024 * 1024


class Copier:
    """Writes files below `root`, each once. `files` are those that are there whole and on disk."""

    def __init__(self, files: Files, root: Path) -> None:
        self._files = files
        self.root = root
        self.copied: dict[str, Copied] = {}

    def copy(self, source: Path, name: str, size: int | None = None) -> Copied:
        """Copy a file, or its first `size` bytes, to `name`. Raises `OSError`, `FileNotFoundError` where it is
        gone; then nothing is left."""
        descriptor = self._files.open_read(source)
        try:
            return self.write(name, self._chunks(descriptor, size))
        finally:
            self._files.close(descriptor)

    def _chunks(self, descriptor: int, size: int | None) -> Iterable[bytes]:
        end = self._files.size(descriptor) if size is None else size
        at = 0
        while at < end:
            chunk = self._files.read(descriptor, min(CHUNK_BYTES, end - at), at)
            if not chunk:
                raise OSError(f"the file has {at} bytes and not {end}")
            yield chunk
            at += len(chunk)

    def write(self, name: str, chunks: Iterable[bytes | memoryview]) -> Copied:
        """Write a file of these bytes; on disk on return, once `sync_folders` is called."""
        path = self.root / name
        self.make_folder(path.parent)
        self._files.remove(path)
        digest, size = sha256(), 0
        descriptor = self._files.open_append(path)
        try:
            for chunk in chunks:
                digest.update(chunk)
                size += len(chunk)
                self._files.append_all(descriptor, chunk)
            self._files.sync(descriptor)
        except BaseException:
            self._files.close(descriptor)
            self._files.remove(path)
            raise
        self._files.close(descriptor)
        self.copied[name] = Copied(name, size, digest.hexdigest())
        return self.copied[name]

    def forget(self, prefix: str) -> None:
        """Remove the copies whose names begin so: they are made anew."""
        for name in [name for name in self.copied if name.startswith(prefix)]:
            del self.copied[name]
            self._files.remove(self.root / name)

    def make_folder(self, path: Path) -> None:
        """Make a folder and those above it, on disk."""
        if not path.is_dir():
            self.make_folder(path.parent)
            path.mkdir(exist_ok=True)
            self._files.sync_dir(path.parent)

    def sync_folders(self) -> None:
        """Let the copies' names be on disk."""
        for folder in sorted({(self.root / name).parent for name in self.copied}):
            self._files.sync_dir(folder)


def check_copy(files: Files, root: Path, wanted: Copied) -> None:
    """Raise `BadBackup` unless the file is what the manifest says."""
    digest = sha256()
    try:
        descriptor = files.open_read(root / wanted.path)
    except FileNotFoundError:
        raise BadBackup(f"the backup lacks {wanted.path}") from None
    try:
        size = files.size(descriptor)
        for at in range(0, size, CHUNK_BYTES):
            digest.update(files.read(descriptor, CHUNK_BYTES, at))
    finally:
        files.close(descriptor)
    if (size, digest.hexdigest()) != (wanted.bytes, wanted.sha256):
        raise BadBackup(f"{wanted.path} of the backup is not as it was written: its checksum differs")
