"""One process at a time writes a lake.

On a local disk Delta looks whether a version is there and then renames its commit to it: two JVMs
could both find it free. So the JVM that commits holds a lock on a file, and the operating system
takes it away when that JVM ends, however it ends: also when the driver was killed and its JVM
lives a moment longer.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from lakemq.objects.path import beside
from lakemq.storage.disk.privacy import DIRECTORY_MODE, FILE_MODE
from lakemq.storage.lake.merge_files import sweep_scratch
from lakemq.storage.lake.table_file import sweep_uploads

_FILE = "_lock"
_KEPT: list[LakeLock] = []
"""Java would close a file that nobody holds any more."""


class LakeLock:
    """The lock of a lake's folder, which is made where there is none, for this user alone: who wants others to
    read it opens it to them. The lock itself stays closed, as who can read a file can hold its lock."""

    def __init__(self, session: SparkSession, lake: Path) -> None:
        self._jvm: Any = session._jvm  # pyright: ignore[reportPrivateUsage]
        self._lake = lake
        lake = beside(lake)
        lake.mkdir(parents=True, exist_ok=True, mode=DIRECTORY_MODE)
        self._file = self._jvm.java.io.RandomAccessFile(str(lake.absolute() / _FILE), "rw")
        with suppress(PermissionError):  # it is another user's, who let us in
            (lake / _FILE).chmod(FILE_MODE)

    def acquire(self) -> bool:
        """Whether this process now holds the lock, until `release` or its JVM's end."""
        is_ours = self._file.getChannel().tryLock() is not None
        if is_ours:
            sweep_uploads(self._lake)
            sweep_scratch(self._lake)
        return is_ours

    def release(self, *, still_writes: bool = False) -> None:
        """Let others have it. `still_writes`: something of this process may commit yet, so they wait for its JVM's
        end."""
        if still_writes:
            _KEPT.append(self)
        else:
            self._file.close()
