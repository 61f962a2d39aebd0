"""What the process's memory is made of, and how the C library gives back what is free of it."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from lakemq.gateway.process.broker import Broker
from lakemq.model.environment import is_malloc_said

MMAP_BYTES = 2 * 1024 * 1024
"""Blocks of that size are the system's again as soon as they are free: above it are an index's arrays, which grow as
long as its segment, and large requests, but not those of every client."""
TRIM_BYTES = 4 * 1024 * 1024
ARENAS_MAX = 2
"""So many heaps there are for all threads: what one thread leaves in its own no other takes."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # glibc's malloc.h


def bound_free_memory() -> None:
    """Have the C library give back what is large and free. By itself it goes by the largest block that was ever freed,
    up to 32 MiB, and keeps twice as much. Does nothing where it isn't glibc, or where the environment says how."""
    if is_malloc_said(os.environ):
        return
    with suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in ((_MMAP_THRESHOLD, MMAP_BYTES), (_TRIM_THRESHOLD, TRIM_BYTES), (_ARENA_MAX, ARENAS_MAX)):
            mallopt(option, value)


class _Malloc(ctypes.Structure):
    """glibc's `struct mallinfo2`: of these the bytes in use, in heaps and beside them, and those that are free."""

    _fields_ = (
        *((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks")),
        *((name, ctypes.c_size_t) for name in ("uordblks", "fordblks", "keepcost")),
    )


def parts_of(broker: Broker) -> dict[str, int]:
    """Bytes by what they are. `resident` is all that the process has; `malloc` and `malloc_free` are what the C library
    gave out and what it keeps, `arrow` is what pyarrow has of an allocator of its own; the others are in these."""
    parts = {
        "index": broker.log.active_index.memory_bytes,
        "frames": broker.log.cache.memory_bytes,
        **broker.reader.memory_bytes(),
        "arrow": pa.total_allocated_bytes(),
    }
    with suppress(OSError):
        parts["resident"] = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, AttributeError):
        mallinfo2 = ctypes.CDLL(None).mallinfo2
        mallinfo2.restype = _Malloc
        found = mallinfo2()
        parts |= {"malloc": found.uordblks + found.hblkhd, "malloc_free": found.fordblks}
    return parts
