"""A machine whose power can be cut: a folder on the file system that forgets."""

from __future__ import annotations

import ctypes.util
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from tests.reliability.fork_server import ForkServer

WAIT_S_MAX = 60.0
FUSE = {"FUSE_LIBRARY_NAME": "fuse3"}
"""Which library the binding loads when it is imported."""


def why_not() -> str | None:
    """Why there can be no such file system here; None where there can."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "the kernel has no FUSE that this user may use (/dev/fuse)"
    if shutil.which("fusermount3") is None or ctypes.util.find_library("fuse3") is None:
        return "there is no fuse3 (Debian: apt-get install fuse3)"
    if importlib.util.find_spec("mfusepy") is None:
        return "the package mfusepy is not installed"
    return None


class Machine:
    """`data` is on the disk. Whoever writes there is killed before the power is cut: what a process does
    after that moment nobody can see."""

    def __init__(self, folder: Path, forks: ForkServer | None = None) -> None:
        self._forks = forks
        self.data = folder / "mount"
        self._disk = folder / "disk"
        self._cut = folder / "CUT"
        self._server: subprocess.Popen[str] | None = None
        self.data.mkdir()
        self._disk.mkdir()

    def start(self, seed: int, **more: str) -> None:
        """Mount it; `seed` says what the next cut will leave. `more`: of its environment."""
        self._cut.unlink(missing_ok=True)
        command = [sys.executable, "-m", "tests.power.file_system", str(self._disk), str(self.data), str(seed)]
        environment = os.environ | FUSE | more
        if self._forks is not None:
            self._server = self._forks.popen(command, environment)
        else:
            self._server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        end = time.monotonic() + WAIT_S_MAX
        while not self.data.is_mount():
            if self._server.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the file system did not start: {self._stop()}")
            time.sleep(0.002)

    def cut_power(self) -> None:
        """Unmount it, with what a cut now leaves."""
        self._cut.touch()
        self.stop()

    def stop(self) -> None:
        """Unmount it, with all that was written."""
        subprocess.run(["fusermount3", "-u", "-z", str(self.data)], check=True)
        said = self._stop()
        if "Error" in said:
            raise RuntimeError(said)

    def _stop(self) -> str:
        server, self._server = self._server, None
        assert server is not None
        try:
            return server.communicate(timeout=WAIT_S_MAX)[1]
        except subprocess.TimeoutExpired:
            server.kill()
            return f"Error: it did not end. {server.communicate()[1]}"

    def sync(self, descriptor: int) -> None:
        """What a program does for its data to be on disk."""
        os.fdatasync(descriptor)

    def sync_folder(self, path: Path) -> None:
        """What a program does for a folder's entries to be on disk."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self.stop()
