"""Objects as files of a folder that all replicas have, such as one of a file server."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

from lakemq.gateway.fleet.asking_thread import AskingThread
from lakemq.gateway.fleet.objects import NAMES_MAX, OBJECT_BYTES_MAX
from lakemq.storage.disk.files import Files

SCRATCH = ".tmp"


class SharedFolder:
    """`Objects` below `root`, which has to be there: one that isn't mounted is not made. A thread of its own touches
    the files, so nobody but who asked waits for a server that is silent.

    A file is written and brought to disk under a name that nobody reads, then it is given its own: so it is whole
    wherever it is found. What a crash leaves behind is such a `*.tmp`.
    """

    def __init__(self, files: Files, root: Path) -> None:
        self._files = files
        self._root = root
        self._ready = set[Path]()
        self._thread = AskingThread("lakemq-shared-folder")

    async def names(self, folder: str) -> list[str]:
        """`Objects.names`."""
        return await self._thread.ask(partial(self._names, self._root / folder))

    def _names(self, folder: Path) -> list[str]:
        self._look_for_root()
        try:
            found = self._files.names(folder)
        except FileNotFoundError:
            return []
        # Without what crashes left: else there could be so much of it that nobody sees any more who leads.
        whole = [each for each in found if not each.endswith(SCRATCH)]
        if len(whole) > NAMES_MAX:
            raise OSError(f"{folder} has {len(whole)} files: these can't be records of leaders")
        return whole

    def _look_for_root(self) -> None:
        if not self._files.is_dir(self._root):
            raise FileNotFoundError(f"{self._root} is not there: fleet.store names a folder that all replicas have")

    async def get(self, name: str, lasting: bool) -> bytes | None:
        """`Objects.get`."""
        return await self._thread.ask(partial(self._get, self._root / name, lasting))

    def _get(self, path: Path, lasting: bool) -> bytes | None:
        self._look_for_root()
        try:
            if (size := self._files.size_of(path)) > OBJECT_BYTES_MAX:
                raise OSError(f"{path} has {size} bytes: this can't be a record of a leader")
            found = self._files.read_whole(path)
        except FileNotFoundError:
            return None
        if lasting:  # who made it may not have come so far yet
            self._files.sync_dir(path.parent)
        return found

    async def put(self, name: str, data: bytes) -> None:
        """`Objects.put`."""
        await self._thread.ask(partial(self._put, self._root / name, data))

    def _put(self, path: Path, data: bytes) -> None:
        scratch = self._write(path, data, lasting=False)
        try:
            self._files.rename(scratch, path)
        except OSError:
            self._discard(scratch)
            raise

    async def put_new(self, name: str, data: bytes) -> bool:
        """`Objects.put_new`. `errno.EPERM` where the file system has no second names."""
        return await self._thread.ask(partial(self._put_new, self._root / name, data))

    def _put_new(self, path: Path, data: bytes) -> bool:
        scratch = self._write(path, data, lasting=True)
        try:
            self._files.link_new(scratch, path)
        except FileExistsError:
            return False
        finally:
            self._discard(scratch)
        self._files.sync_dir(path.parent)
        return True

    def _write(self, path: Path, data: bytes, lasting: bool) -> Path:
        """The data under a name of its own beside the path."""
        self._prepare(path.parent)
        scratch = path.with_name(f"{uuid4().hex}{SCRATCH}")
        try:
            descriptor = self._files.open_append(scratch)
            try:
                self._files.append_all(descriptor, data)
                if lasting:
                    self._files.sync(descriptor)
            finally:
                self._files.close(descriptor)
        except OSError:
            self._discard(scratch)  # a full disk is tried again and again, and each time would leave one
            raise
        return scratch

    def _discard(self, scratch: Path) -> None:
        with suppress(OSError):
            self._files.remove(scratch)

    def _prepare(self, folder: Path) -> None:
        """Have the folder, on disk."""
        self._look_for_root()
        if folder not in self._ready:
            self._files.make_dirs(folder)
            self._files.sync_above(folder)
            self._ready.add(folder)

    async def delete(self, name: str) -> None:
        """`Objects.delete`."""
        await self._thread.ask(partial(self._files.remove, self._root / name))

    async def close(self) -> None:
        """`Objects.close`."""
        self._thread.close()
