"""Whether jobs are starting for a lake: they hold a lock in its folder from their first moment to their last.

The tables are there long before the jobs announce their Spark Connect server (`discovery`), and all along where jobs
are restarted. The lock's file says whose it is, and what broker they wait for, if they wait for one.

Nothing here needs Spark, so that a client can look before it imports anything of it.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from lakemq.jobs.session.discovery import Server, boot, find_server, read
from lakemq.model.safe_text import one_line
from lakemq.objects.path import beside
from lakemq.storage.disk.privacy import DIRECTORY_MODE, FILE_MODE

FILE = "_jobs"
"""In the lake's folder; Delta's readers pass over names like this."""

WAIT_S_MAX = 120.0
"""On a busy machine with two cores, jobs take about 90 s to start."""

WITHOUT_BROKER_S_MAX = 5.0
"""Jobs without a broker don't come up: they get so long, as the broker may be starting too."""

_LOOK_S = 0.5
_TRIES = 20
_TRY_S = 0.05
_BYTES_MAX = 4096
_SAID_CHARACTERS_MAX = 300


class Mark:
    """What the holder of the lock says. `descriptor`: of its file; None: it isn't held."""

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def waits_for_broker(self, broker: str) -> None:
        """What broker the jobs wait for; empty: for none any more. From any thread; raises nothing, as it is only to
        help people."""
        said = [_holder(os.getpid()), *([broker] if broker else [])]
        content = "\n".join(said).encode(errors="replace")[:_BYTES_MAX]
        with self._lock, suppress(OSError):
            if self._descriptor is not None:
                os.pwrite(self._descriptor, content, 0)
                os.ftruncate(self._descriptor, len(content))

    def end(self) -> None:
        """Give the lock up."""
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
            self._descriptor = None


@contextmanager
def marked(lake: Path) -> Generator[Mark]:
    """Meanwhile `are_starting` is true, until this process announces its server. The kernel takes the lock away when
    the process ends, however it ends. Where the lock can't be had, as other jobs have it or the folder can't be
    written, this does nothing: whoever writes the lake next says what is wrong."""
    mark = Mark(_lock(beside(lake)))
    try:
        mark.waits_for_broker("")
        yield mark
    finally:
        mark.end()


def are_starting(lake: Path) -> bool:
    """Whether jobs of this machine run for the lake that haven't announced a server yet, as far as this user can
    tell."""
    return awaited_by_starting(lake) is not None


def awaited_by_starting(lake: Path) -> str | None:
    """What broker such jobs wait for; empty: they don't, as far as they say. None: there are none."""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(beside(lake) / FILE, flags)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        # Jobs of another machine may have the folder too: their server is not reached from here.
        holder, _, awaited = os.read(descriptor, _BYTES_MAX).decode("utf-8", "replace").partition("\n")
        announced = read(lake)
        is_starting = holder.startswith(f"{boot()} ") and (announced is None or holder != _holder(announced.pid))
        return one_line(awaited, _SAID_CHARACTERS_MAX) if is_starting else None
    except OSError:
        return None
    else:
        return None
    finally:
        os.close(descriptor)


def find_server_once_up(lake: Path, say: Callable[[str], None], wait_s: float = WAIT_S_MAX) -> Server | None:
    """The server that runs for this lake. While jobs run that haven't announced theirs, waits for it, `wait_s` at most,
    and says so; a few seconds where they wait for a broker themselves. None: nobody's is to be expected."""
    server = find_server(lake)
    if server is not None or not are_starting(lake):
        return server
    say(f"the jobs of the lake in {lake} are still starting; waiting for them, {wait_s:.0f} s at most")
    end_s = time.monotonic() + wait_s
    without_broker = _WithoutBroker(say)
    while server is None and (awaited := awaited_by_starting(lake)) is not None:
        if without_broker.is_for_long(awaited):
            return None
        if time.monotonic() >= end_s:
            say(f"the jobs have not come up within {wait_s:.0f} s; see their log, or run lakemq doctor")
            return None
        time.sleep(_LOOK_S)
        server = find_server(lake)
    return server or find_server(lake)


class _WithoutBroker:
    """How long jobs have been waiting for a broker on end, as somebody sees who looks now and then."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._since_s: float | None = None

    def is_for_long(self, awaited: str) -> bool:
        """Whether they aren't to be waited for any more. Says what they wait for, and that it is given up."""
        if not awaited:
            self._since_s = None
            return False
        if self._since_s is None:
            self._since_s = time.monotonic()
            self._say(f"the jobs wait for {awaited}")
        if time.monotonic() - self._since_s < WITHOUT_BROKER_S_MAX:
            return False
        self._say("not waiting for the jobs any longer: start the broker they wait for, or run lakemq doctor")
        return True


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
                    return descriptor
                time.sleep(_TRY_S)
        except OSError:
            os.close(descriptor)
            raise
        os.close(descriptor)
    return None
