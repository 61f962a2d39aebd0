"""Child processes that run together, and are started again when they end."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event

from lakemq.jobs.errors import LakeTaken
from lakemq.model.errors import LakemqError
from lakemq.model.stop_signals import stop_signals

BACKOFF_S_MIN = 1.0
BACKOFF_S_MAX = 60.0
STEADY_S = 120.0
"""A child that ran so long begins anew with the shortest back-off."""
LOOK_S = 0.25
REFUSED = 78
"""The exit code of a child that would end the same way again: a setting or damage keeps it from starting."""
REPLACED = LakeTaken.exit_code
"""The exit code of jobs whose lake another driver has taken: started again they would take it back, and so on."""


def backoff_s(failures: int) -> float:
    """The pause before the next start after `failures` ≥ 1 in a row: doubling, bounded."""
    return min(BACKOFF_S_MAX, BACKOFF_S_MIN * 2.0 ** min(failures - 1, 16))


def start_child(
    arguments: list[str],
    *,
    detached: bool = False,
    log: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start `lakemq` with `arguments`, in a process group of its own, ending with this process.

    Its own group, so that Ctrl-C reaches only the parent, which then stops all in order.
    `detached`: it lives on without this process and its terminal. `log`: a file that takes what
    it writes. `environment`: what its environment has where this process's has nothing.
    """
    command = [sys.executable, "-m", "lakemq", *arguments]
    if not detached:
        command += ["--parent-pid", str(os.getpid())]
    with contextlib.ExitStack() as files:
        output = None if log is None else files.enter_context(log.open("ab"))
        return subprocess.Popen(  # noqa: S603  (our own command)
            command,
            env={**(environment or {}), **os.environ},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=detached,
            process_group=None if detached else 0,
        )


def stop_child(child: subprocess.Popen[bytes], grace_s: float) -> None:
    """Ask the child to stop; kill its group if it has not after `grace_s`."""
    if child.poll() is None:
        child.terminate()
        try:
            child.wait(grace_s)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


@dataclass
class Restarted:
    """A child that is started again, after a pause that grows, whenever it ends; unless it says by its
    exit code that this is no use, or that another one does its work now: then it stays down. `needed`: without it all
    the others are to stop."""

    name: str
    start: Callable[[], subprocess.Popen[bytes]]
    say: Callable[[str], None]
    clock_s: Callable[[], float] = time.monotonic
    child: subprocess.Popen[bytes] | None = None
    failures: int = 0
    due_s: float = field(default=0.0)
    started_s: float = field(default=0.0)
    needed: bool = True

    def look(self) -> None:
        """Start the child when it is due; notice when it ended. Raises `LakemqError` when it refused to run, and is
        needed."""
        now = self.clock_s()
        if self.child is None:
            if now >= self.due_s:
                self._start(now)
            return
        code = self.child.poll()
        if code is None:
            return
        self.child = None
        if code == REFUSED and self.needed:
            raise LakemqError(f"the {self.name} {describe_exit(code)}; all is stopped")
        if code in (REFUSED, REPLACED):
            self.due_s = math.inf
            self.say(f"{self.name} {describe_exit(code)}; not restarted. The rest continues")
            return
        self._put_off(now, describe_exit(code))

    def _start(self, now: float) -> None:
        try:
            self.child = self.start()
        except OSError as error:  # no memory or no process to be had, for now
            self._put_off(now, f"can't be started ({error.strerror})")
        self.started_s = now

    def _put_off(self, now: float, why: str) -> None:
        self.failures = 1 if now - self.started_s >= STEADY_S else self.failures + 1
        pause = backoff_s(self.failures)
        self.say(f"{self.name} {why}; starting again in {pause:.0f} s")
        self.due_s = now + pause

    def stop(self, grace_s: float) -> None:
        """Stop the child, if it runs."""
        if self.child is not None:
            stop_child(self.child, grace_s)
            self.child = None


def describe_exit(code: int) -> str:
    """What became of a child with that exit code, as people read it."""
    if code == REFUSED:
        return "can't run, for the reason above"
    if code == REPLACED:
        return f"ended: another driver has the lake now (exit code {code})"
    if code >= 0:
        return f"ended (exit code {code})"
    try:
        return f"ended (killed by {signal.Signals(-code).name})"
    except ValueError:
        return f"ended (killed by signal {-code})"


def stop_requests() -> Event:
    """An event that is set by SIGINT, SIGTERM and, unless `nohup` has it ignored, SIGHUP from now on."""
    stop = Event()

    def request(_signal: int, _frame: object) -> None:
        stop.set()

    for number in stop_signals():
        signal.signal(number, request)
    return stop
