"""Files that lose power: what was not synced may be dropped, torn or reordered."""

from __future__ import annotations

import errno
import inspect
import os
import random
import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import lakemq
from lakemq.storage.disk import files as seam
from lakemq.storage.disk.files import Files
from lakemq.testing.disk import Cut, Disk, Entry, File, Write

_SEAM = {seam.__file__, __file__}
_PACKAGE = str(Path(lakemq.__file__).parent) + os.sep


class LossyFiles(Files):
    """Real files below `root`, and a model of what of them is on disk. All chance comes from `seed`.

    `die_at`: the process dies in that mutating call, counted by `calls` from 1; all later ones fail.
    `revive` lets a next process begin, with the memory of the operating system as it is; `cut_power` with
    what is on disk. `skipped_site`: syncs that are called from there do nothing, to show that they matter;
    `sites` are those that were called. `fail_syncs`: so many of the next syncs of files fail, and what they
    should have brought to disk never gets there, though it can be read: as Linux has it.
    `fault`: `(call, error)`: that mutating call fails with this errno. `read_fault` likewise: that call that reads,
    counted by `reads` from 1, and the `read_faults` - 1 after it.
    """

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.chance = random.Random(seed)  # noqa: S311  chance that can be had again, no secret
        self.calls = 0
        self.die_at: int | None = None
        self.dead = False
        self.fault: tuple[int, int] | None = None
        self.fail_syncs = 0
        self.reads = 0
        self.read_fault: tuple[int, int] | None = None
        self.read_faults = 1
        self.boots = 0
        self.sites: set[str] = set()
        self.skipped_site: str | None = None
        self.on_call: Callable[[str], None] = lambda name: None
        self.on_skip: Callable[[], None] = lambda: None
        self._lock = threading.RLock()
        self._disk = Disk()
        self._open: dict[int, File] = {}
        self._disk.settle(_content(root))

    # The machine's life ----------------------------------------------------------------------

    def revive(self) -> None:
        """The process died, the operating system did not: it closes what the process had open."""
        with self._lock:
            for descriptor in self._open:
                super().close(descriptor)
            self._open.clear()
            self.dead, self.die_at = False, None

    def cut_power(self) -> None:
        """The machine died: `root` holds what its disk does."""
        with self._lock:
            unknown = _content(self.root).keys() ^ self._disk.seen.keys()
            assert not unknown, f"touched outside the seam: {unknown}"
            content = self._disk.after_cut(self.chance)
            for path in self.root.iterdir():
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            for path, data in content.items():
                if data is not None:
                    path.write_bytes(data)
                elif path != self.root:
                    path.mkdir()
            self._disk.settle({**content, self.root: None})
            self.boots += 1
            self.revive()

    # The seam --------------------------------------------------------------------------------

    def open_append(self, path: Path) -> int:
        return self._opened(path, super().open_append)

    def open_update(self, path: Path) -> int:
        return self._opened(path, super().open_update)

    def open_read(self, path: Path) -> int:
        with self._lock:
            self._read_step()
            descriptor = super().open_read(path)
            self._open[descriptor] = self._disk.seen.get(path) or File()
            return descriptor

    def _opened(self, path: Path, opening: Callable[[Path], int]) -> int:
        with self._lock:
            is_new = path not in self._disk.seen
            if is_new:
                if not self._step("create"):
                    raise _dead()
                self._disk.do(Entry(None, path, File()))
            else:
                self._read_step()
            found = self._disk.seen[path]
            assert found is not None
            descriptor = opening(path)
            self._open[descriptor] = found
            if is_new:
                self._check()
            return descriptor

    def close(self, descriptor: int) -> None:
        """Raises `OSError` for what is not open: the number may be another's by now."""
        with self._lock:
            if self._open.pop(descriptor, None) is None:
                raise OSError(errno.EBADF, os.strerror(errno.EBADF))
            super().close(descriptor)

    def append(self, descriptor: int, parts: Sequence[bytes | memoryview]) -> int:
        data = b"".join(bytes(part) for part in parts)
        with self._lock:
            if not self._step("append"):
                raise _dead()
            if self.dead:
                data = data[: self.chance.randrange(len(data) + 1)]
            written = super().append(descriptor, (data,)) if data else 0
            file = self._open[descriptor]
            file.do(Write(file.size, data[:written]))
            self._check()
            return written

    def write_at(self, descriptor: int, data: bytes, offset: int) -> None:
        with self._lock:
            if not self._step("write_at"):
                raise _dead()
            super().write_at(descriptor, data, offset)
            self._open[descriptor].do(Write(offset, data))
            self._check()

    def truncate(self, descriptor: int, size: int) -> None:
        with self._lock:
            if not self._step("truncate"):
                raise _dead()
            super().truncate(descriptor, size)
            self._open[descriptor].do(Cut(size))
            self._check()

    def sync(self, descriptor: int) -> None:
        with self._lock:
            site = self._site("sync")
            file = self._open[descriptor]
            try:
                is_done = self._step("sync") and not self.dead
            except OSError:
                if not self.dead:
                    file.lose()
                raise
            if not is_done:
                raise _dead()
            if self.fail_syncs:
                self.fail_syncs -= 1
                file.lose()
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            if site == self.skipped_site:
                self.on_skip()
            else:
                file.sync()

    def sync_dir(self, path: Path) -> None:
        with self._lock:
            site = self._site("sync_dir")
            if not self._step("sync_dir") or self.dead:
                raise _dead()
            if site == self.skipped_site:
                self.on_skip()
            else:
                self._disk.sync_folder(path)

    def make_entry(self, path: Path) -> None:
        self._enter("make_entry", Entry(None, path, None), lambda: super(LossyFiles, self).make_entry(path))

    def remove(self, path: Path) -> None:
        if path in self._disk.seen:
            self._enter("remove", Entry(path, None, None), lambda: super(LossyFiles, self).remove(path))

    def rename(self, path: Path, other: Path) -> None:
        with self._lock:
            entry = Entry(path, other, self._disk.seen.get(path))
            self._enter("rename", entry, lambda: super(LossyFiles, self).rename(path, other))

    def _link(self, path: Path, other: Path) -> None:
        with self._lock:
            entry = Entry(None, other, self._disk.seen.get(path))
            self._enter("link", entry, lambda: super(LossyFiles, self)._link(path, other))

    def forget_cached(self, descriptor: int) -> None:
        """It stays in memory: a kernel need not do as it is told."""

    def _enter(self, name: str, entry: Entry, doing: Callable[[], None]) -> None:
        with self._lock:
            if not self._step(name):
                raise _dead()
            doing()
            self._disk.do(entry)
            self._check()

    def boot_id(self) -> str:
        return f"boot {self.boots}"

    # Reading ---------------------------------------------------------------------------------

    def read(self, descriptor: int, size: int, offset: int) -> bytes:
        self._read_step()
        return super().read(descriptor, size, offset)

    def read_at_once(self, descriptor: int, size: int, offset: int) -> bytearray | bytes | None:
        """Whatever is read is read by `read`, where power may be lost."""
        return None

    def size(self, descriptor: int) -> int:
        self._read_step()
        return super().size(descriptor)

    def size_of(self, path: Path) -> int:
        self._read_step()
        return super().size_of(path)

    def names(self, path: Path) -> list[str]:
        self._read_step()
        return super().names(path)

    def _read_step(self) -> None:
        with self._lock:
            self.reads += 1
            if self.read_fault is not None:
                first, error = self.read_fault
                if first <= self.reads < first + self.read_faults:
                    raise OSError(error, os.strerror(error))

    # Dying -----------------------------------------------------------------------------------

    def _step(self, name: str) -> bool:
        """Count a mutating call; whether it is still, at least in part, carried out. Who dies in it is
        `dead` now."""
        self._check()
        self.calls += 1
        self.on_call(name)
        if self.fault is not None and self.calls == self.fault[0]:
            raise OSError(self.fault[1], os.strerror(self.fault[1]))
        if self.calls == self.die_at:
            self.dead = True
            return self.chance.random() < 0.5
        return True

    def _check(self) -> None:
        if self.dead:
            raise _dead()

    def _site(self, kind: str) -> str:
        """Who syncs: the function of lakemq, and how."""
        frame = inspect.currentframe()
        through = ""
        while frame is not None and not _is_ours(frame.f_code.co_filename):
            if frame.f_code.co_filename == seam.__file__:
                through = frame.f_code.co_name + "."
            frame = frame.f_back
        assert frame is not None, "a sync is called by name where its caller can be seen"
        name = frame.f_code.co_filename.removeprefix(_PACKAGE).removesuffix(".py").replace(os.sep, ".")
        site = f"{name}.{frame.f_code.co_qualname}: {through}{kind}"
        self.sites.add(site)
        return site


def _is_ours(name: str) -> bool:
    return name.startswith(_PACKAGE) and name not in _SEAM


def _dead() -> OSError:
    return OSError(errno.EIO, "the machine is off")


def _content(root: Path) -> dict[Path, bytes | None]:
    content: dict[Path, bytes | None] = {root: None}
    for path in root.rglob("*"):
        content[path] = None if path.is_dir() else path.read_bytes()
    return content
