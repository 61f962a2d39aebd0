"""The lake query beside a gateway, for one measure, and how far it has come."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path

from benchmarks.broker import positions

_START_S_MAX = 300
_STOP_S_MAX = 60


class LakeProcess:
    """`lakemq jobs lake` as a process. `ready_s`: how long it took until the query ran."""

    def __init__(self, url: str, lake: Path) -> None:
        command = [sys.executable, "-m", "lakemq", "jobs", "lake", "--broker", url, "--lake", str(lake)]
        command += ["--parent-pid", str(os.getpid())]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKEMQ_")}
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
        self._ready = threading.Event()
        self.lines: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()
        if not self._ready.wait(_START_S_MAX) or self._process.poll() is not None:
            self.stop()
            raise RuntimeError("the lake query did not start: " + "".join(self.lines[-20:]))
        self.ready_s = time.monotonic() - begin

    def _read(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.lines.append(line)
            if "lake query: ready" in line:
                self._ready.set()
        self._ready.set()

    def check(self) -> None:
        """Raise `RuntimeError` when it has ended."""
        if self._process.poll() is not None:
            raise RuntimeError("the lake query has ended: " + "".join(self.lines[-20:]))

    def stop(self) -> None:
        """Stop it, and all that it started: it has a session of its own."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOP_S_MAX)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()


@contextlib.contextmanager
def lake_query(url: str, lake: Path) -> Generator[LakeProcess]:
    """The lake query on the broker at `url`, with the lake in that folder."""
    process = LakeProcess(url, lake)
    try:
        yield process
    finally:
        process.stop()


def wait_compacted(url: str, query: LakeProcess, position: int, seconds_max: float) -> None:
    """Wait until the lake holds all before `position`."""
    deadline = time.monotonic() + seconds_max
    while positions(url)["compacted_position"] < position:
        query.check()
        if time.monotonic() > deadline:
            raise TimeoutError(f"not compacted up to {position} within {seconds_max} s")
        time.sleep(0.1)
