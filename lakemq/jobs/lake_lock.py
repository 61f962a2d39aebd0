"""One process at a time writes a lake.

On a local disk Delta looks whether a version is there and then renames its commit to it: two JVMs
could both find it free. So the JVM that commits holds a lock on a file, and the operating system
takes it away when that JVM ends, however it ends: also when the driver was killed and its JVM
lives a moment longer.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

_FILE = "_lock"


class LakeLock:
    """The lock of a lake's folder, which is made where there is none."""

    def __init__(self, session: SparkSession, lake: Path) -> None:
        self._jvm: Any = session._jvm  # pyright: ignore[reportPrivateUsage]
        lake.mkdir(parents=True, exist_ok=True)
        self._file = self._jvm.java.io.RandomAccessFile(str(lake.absolute() / _FILE), "rw")

    def acquire(self) -> bool:
        """Whether this process now holds the lock, until `release` or its JVM's end."""
        return self._file.getChannel().tryLock() is not None

    def release(self) -> None:
        self._file.close()
