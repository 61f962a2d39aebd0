"""A Java that was being started for this process when the start was given up.

PySpark waits for it to say where it listens, and keeps nothing of it before. Interrupted, it takes away the folder in
which Java was to say that: Java then fails half-way up, and its other threads keep it alive for good.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

_PROC = Path("/proc")
_STARTED_BY_PYSPARK = b"_PYSPARK_DRIVER_CONN_INFO_PATH="


@contextmanager
def no_java_left() -> Generator[None]:
    """Where this is left by an exception, a Java that PySpark has begun to start in it is ended, and the shell that
    starts it. On Linux alone: elsewhere it is left to be ended by hand."""
    before = _children()
    try:
        yield
    except BaseException:
        begun = {start for pid in _children() - before if (start := _start_of(pid)) is not None}
        for pid in _processes():
            if _start_of(pid) in begun:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        raise


def _processes() -> list[int]:
    return [int(entry.name) for entry in _PROC.glob("[0-9]*")]


def _children() -> set[int]:
    """Of this process."""
    return {pid for pid in _processes() if _parent_of(pid) == os.getpid()}


def _parent_of(pid: int) -> int | None:
    try:
        return int(_PROC.joinpath(str(pid), "stat").read_bytes().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):  # it has just ended
        return None


def _start_of(pid: int) -> bytes | None:
    """Which of PySpark's starts of a Java it belongs to: each has a file of its own, of which its processes know. None:
    to none."""
    try:
        said = _PROC.joinpath(str(pid), "environ").read_bytes().split(b"\0")
    except OSError:  # it has just ended, or is another user's
        return None
    return next((each for each in said if each.startswith(_STARTED_BY_PYSPARK)), None)
