"""Whether jobs are starting for a lake: they hold a lock in its folder from their first moment to their last.

The tables are there long before the jobs announce their Spark Connect server (`discovery`), and all along where jobs
are restarted.

Nothing here needs Spark, so that a client can look before it imports anything of it.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from lakemq.jobs.session.discovery import Server, boot, find_server, read
from lakemq.objects.path import beside
from lakemq.storage.disk.privacy import DIRECTORY_MODE, FILE_MODE

FILE = "_jobs"
"""In the lake's folder; Delta's readers pass over names like this."""

WAIT_S_MAX = 120.0
"""On a busy machine with two cores, jobs take about 90 s to start."""

_LOOK_S = 0.5
_TRIES = 20
_TRY_S = 0.05
_HOLDER_BYTES_MAX = 128


@contextmanager
def marked(lake: Path) -> Generator[None]:
    """Meanwhile `are_starting` is true, until this process announces its server. The kernel takes the lock away when
    the process ends, however it ends. Where the lock can't be had, as other jobs have it or the folder can't be
    written, this does nothing: whoever writes the lake next says what is wrong."""
    descriptor = _lock(beside(lake))
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def are_starting(lake: Path) -> bool:
    """Whether jobs of this machine run for the lake that haven't announced a server yet, as far as this user can
    tell."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(beside(lake) / FILE, flags)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        # Jobs of another machine may have the folder too: their server is not reached from here.
        holder = os.read(descriptor, _HOLDER_BYTES_MAX).decode("ascii", "replace")
        announced = read(lake)
        return holder.startswith(f"{boot()} ") and (announced is None or holder != _holder(announced.pid))
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
    if server is not None or not are_starting(lake):
        return server
    say(f"the jobs of the lake in {lake} are still starting; waiting for them, {wait_s:.0f} s at most")
    end_s = time.monotonic() + wait_s
    while server is None and are_starting(lake):
        if time.monotonic() >= end_s:
            say(f"the jobs have not come up within {wait_s:.0f} s; see their log, or run lakemq doctor")
            return None
        time.sleep(_LOOK_S)
        server = find_server(lake)
    return server or find_server(lake)


def _holder(pid: int) -> str:
    return f"{boot()} {pid}"


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
                    os.pwrite(descriptor, _holder(os.getpid()).encode("ascii"), 0)
                    return descriptor
                time.sleep(_TRY_S)
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)
    return None
