"""What the disk takes: one writer, one file, fdatasync every 16 MiB. `python -m benchmarks.disk`."""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks.broker import scratch
from benchmarks.cpu import Meter
from benchmarks.options import sizes
from benchmarks.results import emit

_PIECE = 16 * 1024 * 1024


def write_rate(folder: Path, total_bytes: int) -> float:
    """Bytes a second of a plain sequential writer."""
    piece = os.urandom(_PIECE)
    descriptor = os.open(folder / "probe", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        begin = time.monotonic()
        for _ in range(max(total_bytes // _PIECE, 1)):
            os.write(descriptor, piece)
            os.fdatasync(descriptor)
        return max(total_bytes // _PIECE, 1) * _PIECE / (time.monotonic() - begin)
    finally:
        os.close(descriptor)
        (folder / "probe").unlink()


def emit_write_rate(folder: Path, mib: int) -> None:
    """Measure, and print it."""
    with Meter() as meter:
        rate = write_rate(folder, mib * 1024 * 1024)
    emit("disk, sequential writes", rate / 1e6, "MB/s", {"mib": mib, "fdatasync_mib": 16}, **meter.spent())


if __name__ == "__main__":
    chosen = sizes(__doc__, mib=(1024, 32))
    with scratch() as scratch_folder:
        emit_write_rate(scratch_folder, chosen.mib)
