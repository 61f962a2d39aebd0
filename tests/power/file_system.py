"""A file system that forgets, when its power is cut, what nobody synced: `python -m tests.power.file_system`.

It serves a folder through FUSE, and keeps `lakemq.testing.disk`'s model of what of it is on disk. When it is
unmounted and there is a file `CUT` beside the folder, the folder is made to hold what that disk does.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

import mfusepy

from lakemq.testing.disk import Cut, Disk, Entry, File, Write

ROOT = Path("/")
STATS = ("st_atime", "st_ctime", "st_gid", "st_mode", "st_mtime", "st_nlink", "st_size", "st_uid", "st_ino")
PLACES = ("f_bavail", "f_bfree", "f_blocks", "f_bsize", "f_favail", "f_ffree", "f_files", "f_flag", "f_frsize")


class PowerLoss(mfusepy.Operations):
    """The calls of the kernel, one at a time."""

    use_ns = True

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._chance = random.Random(seed)
        self._disk = Disk()
        self._open: dict[int, File] = {}
        self._settle()

    def _settle(self) -> None:
        content: dict[Path, bytes | None] = {ROOT: None}
        for path in self._folder.rglob("*"):
            content[ROOT / path.relative_to(self._folder)] = path.read_bytes() if path.is_file() else None
        self._disk.settle(content)

    def _at(self, path: str) -> str:
        return f"{self._folder}{path}"

    def _file(self, path: str) -> File:
        found = self._disk.seen.get(Path(path))
        if found is None:
            raise mfusepy.FuseOSError(errno.ENOENT)
        return found

    def cut(self) -> None:
        """The power is cut: the folder holds what the disk does."""
        content = self._disk.after_cut(self._chance)
        for path in self._folder.iterdir():
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        for path, data in content.items():
            at = self._folder / path.relative_to(ROOT)
            if data is not None:
                at.write_bytes(data)
            elif path != ROOT:
                at.mkdir()

    # Files -----------------------------------------------------------------------------------

    def create(self, path: str, mode: int, fi: Any = None) -> int:
        descriptor = os.open(self._at(path), os.O_RDWR | os.O_CREAT, mode)
        name = Path(path)
        if name not in self._disk.seen:
            self._disk.do(Entry(None, name, File()))
        self._open[descriptor] = self._file(path)
        return descriptor

    def open(self, path: str, flags: int) -> int:
        descriptor = os.open(self._at(path), flags & ~os.O_APPEND & ~os.O_TRUNC & ~os.O_DIRECT)
        self._open[descriptor] = self._file(path)
        if flags & os.O_TRUNC:
            self.truncate(path, 0)
        return descriptor

    def release(self, path: str, fh: int) -> int:
        self._open.pop(fh, None)
        os.close(fh)
        return 0

    def read(self, path: str, size: int, offset: int, fh: int) -> bytes:
        return os.pread(fh, size, offset)

    def write(self, path: str, data: bytes, offset: int, fh: int) -> int:
        written = os.pwrite(fh, data, offset)
        self._open[fh].do(Write(offset, bytes(data[:written])))
        return written

    def truncate(self, path: str, length: int, fh: int | None = None) -> int:
        os.truncate(self._at(path) if fh is None else fh, length)
        (self._file(path) if fh is None else self._open[fh]).do(Cut(length))
        return 0

    def fsync(self, path: str, datasync: int, fh: int) -> int:
        self._open[fh].sync()
        return 0

    def flush(self, path: str, fh: int) -> int:
        return 0

    # Folders ---------------------------------------------------------------------------------

    def mkdir(self, path: str, mode: int) -> int:
        os.mkdir(self._at(path), mode)  # noqa: PTH102  the kernel's paths are texts
        self._disk.do(Entry(None, Path(path), None))
        return 0

    def rmdir(self, path: str) -> int:
        os.rmdir(self._at(path))  # noqa: PTH106
        self._disk.do(Entry(Path(path), None, None))
        return 0

    def unlink(self, path: str) -> int:
        os.unlink(self._at(path))  # noqa: PTH108
        self._disk.do(Entry(Path(path), None, None))
        return 0

    def rename(self, old: str, new: str) -> int:
        os.rename(self._at(old), self._at(new))  # noqa: PTH104
        gone, path = Path(old), Path(new)
        below = [name for name in self._disk.seen if gone in name.parents]
        self._disk.do(Entry(gone, path, self._disk.seen.get(gone)))
        for name in below:
            self._disk.do(Entry(name, path / name.relative_to(gone), self._disk.seen[name]))
        return 0

    def link(self, target: str, source: str) -> int:
        if "LAKEMQ_TEST_NO_LINKS" in os.environ:
            raise mfusepy.FuseOSError(errno.EPERM)
        os.link(self._at(source), self._at(target))
        self._disk.do(Entry(None, Path(target), self._file(source)))
        return 0

    def fsyncdir(self, path: str, datasync: int, fh: int) -> int:
        self._disk.sync_folder(Path(path))
        return 0

    def opendir(self, path: str) -> int:
        return 0

    def readdir(self, path: str, fh: int) -> Any:
        return [".", "..", *os.listdir(self._at(path))]  # noqa: PTH208

    # What is not of the model ----------------------------------------------------------------

    def getattr(self, path: str, fh: int | None = None) -> dict[str, Any]:
        found = os.lstat(self._at(path)) if fh is None else os.fstat(fh)
        times = {f"st_{name}time": getattr(found, f"st_{name}time_ns") for name in "acm"}
        return {name: getattr(found, name) for name in STATS} | times

    def access(self, path: str, amode: int) -> int:
        return 0

    def chmod(self, path: str, mode: int) -> int:
        os.chmod(self._at(path), stat.S_IMODE(mode))  # noqa: PTH101
        return 0

    def chown(self, path: str, uid: int, gid: int) -> int:
        return 0

    def utimens(self, path: str, times: tuple[int, int] | None = None) -> int:
        os.utime(self._at(path), ns=times) if times else os.utime(self._at(path))
        return 0

    def statfs(self, path: str) -> dict[str, int]:
        found = os.statvfs(self._folder)
        return {name: getattr(found, name) for name in PLACES}


def main() -> None:
    """`FOLDER MOUNT SEED`, until it is unmounted."""
    folder, mount, seed = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    os.umask(0o077)
    served = PowerLoss(folder, seed)
    mfusepy.FUSE(served, mount, foreground=True, nothreads=True, fsname="lakemq-power-loss")
    if folder.with_name("CUT").exists():
        served.cut()


if __name__ == "__main__":
    main()
