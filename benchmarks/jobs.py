"""Spark jobs beside a gateway, for one measure: all of them, or the lake query alone."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Mapping
from pathlib import Path

from benchmarks.broker import positions

_START_S_MAX = 300
_STOP_S_MAX = 60
_TAIL = 100
_READY = re.compile(r"(\w+) query: ready")
QUERIES = ("lake", "wheel")


class JobsProcess:
    """`lakemq jobs`, all or the named ones, as a process. `ready_s`: how long it took until their
    queries ran."""

    def __init__(self, url: str, lake: Path, *names: str, settings: Mapping[str, str] | None = None) -> None:
        """`settings`: of the environment, beside the defaults."""
        command = [sys.executable, "-m", "lakemq", "jobs", *names, "--broker", url, "--lake", str(lake)]
        command += ["--parent-pid", str(os.getpid())]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKEMQ_")}
        environment |= settings or {}
        begin = time.monotonic()
        self._process = subprocess.Popen(
            command,
            env=environment,
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self.pid = self._process.pid
        self._starting = {name for name in QUERIES if name in (names or QUERIES)}
        self._ready = threading.Event()
        self._stopped = False
        self.lines: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()
        if not self._ready.wait(_START_S_MAX) or self._process.poll() is not None:
            self.stop()
            raise RuntimeError(f"{self._starting} did not start: " + "".join(self.lines[-_TAIL:]))
        self.ready_s = time.monotonic() - begin

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.lines.append(line)
            if (found := _READY.search(line)) is not None:
                self._starting.discard(found.group(1))
                if not self._starting:
                    self._ready.set()
        self._ready.set()

    def check(self) -> None:
        """Raise `RuntimeError` when it has ended, and nobody has stopped it."""
        if self._process.poll() is not None and not self._stopped:
            raise RuntimeError("the jobs have ended: " + "".join(self.lines[-_TAIL:]))

    def stop(self) -> None:
        """Stop it, and all that it started: it has a session of its own."""
        self._stopped = True
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S_MAX)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()


@contextlib.contextmanager
def lake_query(url: str, lake: Path) -> Generator[JobsProcess]:
    """The lake query on the broker at `url`, with the lake in that folder."""
    with _running(JobsProcess(url, lake, "lake")) as process:
        yield process


@contextlib.contextmanager
def all_jobs(url: str, lake: Path) -> Generator[JobsProcess]:
    """All jobs on the broker at `url`, with the lake in that folder."""
    with _running(JobsProcess(url, lake)) as process:
        yield process


@contextlib.contextmanager
def _running(process: JobsProcess) -> Generator[JobsProcess]:
    try:
        yield process
    finally:
        process.stop()


def wait_compacted(url: str, query: JobsProcess, position: int, seconds_max: float) -> None:
    """Wait until the lake holds all before `position`."""
    deadline = time.monotonic() + seconds_max
    while positions(url)["compacted_position"] < position:
        query.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"not compacted up to {position} within {seconds_max} s")
        time.sleep(0.1)
