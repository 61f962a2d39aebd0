"""Whether jobs run for a lake, though they may still be starting: they hold a lock in its folder from their first
moment on. The tables are there long before the jobs' Spark Connect server is announced (`discovery`), and as jobs are
restarted there are tables all along.

Nothing here needs Spark, so that a client can look before it imports anything of it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from lakemq.jobs.session.discovery import Server, boot, find_server
from lakemq.objects.path import beside
from lakemq.storage.disk.privacy import DIRECTORY_MODE, FILE_MODE

FILE = "_jobs"
"""In the lake's folder; Delta's readers pass over names like this."""

WAIT_S_MAX = 120.0
"""On a busy machine with two cores, jobs take about 90 s to start."""

_LOOK_S = 0.5
_TRIES = 20
_TRY_S = 0.05
_BOOT_BYTES_MAX = 64


@contextmanager
def marked(lake: Path) -> Generator[None]:
    """Meanwhile `jobs_run` is true. The kernel takes the lock away when the process ends, however it ends. Where
    the lock can't be had, as other jobs have it or the folder can't be written, this does nothing: whoever writes the
    lake next says what is wrong."""
    descriptor = _lock(beside(lake))
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def jobs_run(lake: Path) -> bool:
    """Whether jobs of this machine run for the lake, as far as this user can tell."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(beside(lake) / FILE, flags)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        # Jobs of another machine that has the folder too: their server is not reached from here.
        return os.read(descriptor, _BOOT_BYTES_MAX).decode("ascii", "replace") == boot()
    except OSError:
        return False
    else:
        return False
    finally:
        os.close(descriptor)


def find_server_once_up(lake: Path, say: Callable[[str], None], wait_s: float = WAIT_S_MAX) -> Server | None:
    """The server that runs for this lake. While jobs run that haven't announced theirs, waits for it, `wait_s` at most,
    and says so. None: nobody's is to be expected."""
    server = find_server(lake)
    if server is not None or not jobs_run(lake):
        return server
    say(f"the jobs of the lake in {lake} are still starting; waiting for them, {wait_s:.0f} s at most")
    end_s = time.monotonic() + wait_s
    while server is None and jobs_run(lake):
        if time.monotonic() >= end_s:
            say(f"the jobs have not come up within {wait_s:.0f} s; see their log, or run lakemq doctor")
            return None
        time.sleep(_LOOK_S)
        server = find_server(lake)
    return server or find_server(lake)


def _lock(lake: Path) -> int | None:
    """The descriptor that holds the lock."""
    with suppress(OSError):
        lake.mkdir(parents=True, exist_ok=True, mode=DIRECTORY_MODE)
        descriptor = os.open(lake / FILE, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
        try:
            for _ in range(_TRIES):  # whoever looks has it for an instant
                with suppress(BlockingIOError):
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.ftruncate(descriptor, 0)
                    os.pwrite(descriptor, boot().encode("ascii"), 0)
                    return descriptor
                time.sleep(_TRY_S)
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)
    return None
