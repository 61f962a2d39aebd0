"""The processes of a fleet: each with a log of its own, started, killed and started again."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from lakemq.cli.supervisor import describe_exit, start_child, stop_child
from lakemq.model.errors import LakemqError

STOP_GRACE_S = 60.0
WAIT_S_MAX = 600.0
"""Nothing that is waited for takes so long, on a busy machine that starts a Spark beside it neither."""
LOOK_S = 0.1

Launch = Callable[[Path, bool], "subprocess.Popen[bytes]"]
"""Start it, with its log; True: so that it lives on after this process."""


def lakemq(*arguments: str) -> Launch:
    """`lakemq` with these arguments."""
    return lambda log, detached: start_child(list(arguments), detached=detached, log=log)


class Process:
    """One of them. `log`: what it writes. `keep`: it may live on after this process."""

    def __init__(self, name: str, launch: Launch, log: Path, *, keep: bool) -> None:
        self.name, self.log = name, log
        self._launch, self._keep = launch, keep
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, for the first time or again."""
        self._process = self._launch(self.log, self._keep)

    @property
    def pid(self) -> int:
        """Of a process that was started."""
        assert self._process is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether it was started, and neither killed nor stopped since."""
        return self._process is not None

    def check_alive(self) -> None:
        """Raises `LakemqError` with the last line of its log if it has ended by itself."""
        code = None if self._process is None else self._process.poll()
        if code is not None:
            raise LakemqError(f"{self.name} {describe_exit(code)}: {self._last_line()}")

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """Ask it to end, and wait for that."""
        process, self._process = self._process, None
        if process is not None:
            stop_child(process, STOP_GRACE_S)

    def _last_line(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()
        return next((line for line in reversed(lines) if line.strip()), "it said nothing")


def wait_until(holds: Callable[[], bool], what: str, check: Callable[[], None], seconds: float = WAIT_S_MAX) -> None:
    """Returns once it holds. Raises `LakemqError` with `what` after so many seconds, and what `check` raises."""
    end_s = time.monotonic() + seconds
    while not holds():
        check()
        if time.monotonic() > end_s:
            raise LakemqError(f"{what}: not within {seconds:.0f} s")
        time.sleep(LOOK_S)
