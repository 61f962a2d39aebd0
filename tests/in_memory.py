"""Where the files of tests lie: in memory, where there is room. Nothing that tests ask needs this machine's disk: what
a power cut leaves is said by models of disks (`LossyFiles`, the file system of tests/power), and a killed process
leaves there what it leaves anywhere. But tests bring things to disk all the time, and waited for it.

TMPDIR says another place.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM_BYTES = 6 * 1024**3
"""A whole run needs a third of it; what memory is left is Spark's and the brokers'."""


def put_in_memory() -> None:
    """Let this process and all that it starts make their temporary files there, if there is room, nobody has said
    otherwise, and programs can be run from there."""
    if "TMPDIR" in os.environ or not _has_room():
        return
    os.environ["TMPDIR"] = str(MEMORY)
    tempfile.tempdir = None  # else it would go on with what it has found before


def _has_room() -> bool:
    try:
        place = os.statvfs(MEMORY)
        lines = Path("/proc/meminfo").read_text("ascii").splitlines()
    except OSError:
        return False
    (free_kib,) = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")]
    is_usable = os.access(MEMORY, os.W_OK | os.X_OK) and not place.f_flag & os.ST_NOEXEC
    return is_usable and min(place.f_bavail * place.f_frsize, free_kib * 1024) >= ROOM_BYTES
