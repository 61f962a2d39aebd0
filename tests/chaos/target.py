"""The gateway under faults: where it is now, and what is done to it."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from pathlib import Path
from typing import Any

from lakemq.storage.clock import SystemClock
from lakemq.testing import GatewayProcess, start_gateway
from lakemq.testing.history import Recorder
from tests.reliability.fork_server import ForkServer


class Target:
    """One broker over all its lives. `url` is None while it is down; workers ask for it each time."""

    def __init__(
        self,
        data_dir: Path,
        recorder: Recorder,
        options: dict[str, Any],
        clock_file: Path | None = None,
        module: str | None = None,
        forks: ForkServer | None = None,
    ) -> None:
        self.data_dir = data_dir
        self.recorder = recorder
        self._options = options
        self._module = module
        self._spawn = {} if forks is None else {"spawn": forks.popen}
        self._clock_file = clock_file or data_dir.with_name(data_dir.name + ".clock")
        self._clock_file.write_text(f"{0:20}")
        self._gateway: GatewayProcess | None = None
        self.lives = 0
        self.stopping = threading.Event()
        self.log: list[str] = []

    @property
    def url(self) -> str | None:
        """Where it listens now."""
        gateway = self._gateway
        return None if gateway is None else gateway.url

    @property
    def running(self) -> GatewayProcess:
        """The process; there must be one."""
        assert self._gateway is not None
        return self._gateway

    def start(self) -> None:
        """The next life."""
        self.lives += 1
        self._gateway = start_gateway(self.data_dir, self._clock_file, self._module, **self._spawn, **self._options)

    def kill(self) -> None:
        """kill -9."""
        self.recorder.note("chaos", "fault", fault="kill")
        self._end(self.running.kill)

    def stop(self) -> None:
        """Stop it as an operator would."""
        self.recorder.note("chaos", "fault", fault="stop")
        self._end(self.running.stop)

    def end(self) -> None:
        """Let no process be left."""
        if self._gateway is not None:
            self._end(self.running.stop)

    def _end(self, end: object) -> None:
        gateway, self._gateway = self.running, None
        assert callable(end)
        end()
        self.log += gateway.log

    def freeze(self, seconds: float) -> None:
        """SIGSTOP, for so long."""
        pid = self.running.pid
        self.recorder.note("chaos", "fault", fault="freeze")
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(pid, signal.SIGCONT)

    def exhaust_descriptors(self, seconds: float, room: int) -> None:
        """For so long it can open only so many files and connections more."""
        pid = self.running.pid
        self.recorder.note("chaos", "fault", fault="descriptors")
        soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        used = max(int(each.name) for each in Path(f"/proc/{pid}/fd").iterdir()) + 1
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (min(used + room, hard), hard))
        try:
            time.sleep(seconds)
        finally:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (soft, hard))

    def fill_disk(self, seconds: float) -> None:
        """For so long there is no byte left; for a broker on a small file system of its own."""
        self.recorder.note("chaos", "fault", fault="disk full")
        ballast = self.data_dir.with_name("ballast")
        descriptor = os.open(ballast, os.O_WRONLY | os.O_CREAT)
        try:
            while os.write(descriptor, b"\0" * 65_536):
                pass
        except OSError:
            pass
        finally:
            os.close(descriptor)
        try:
            time.sleep(seconds)
        finally:
            ballast.unlink()

    def set_clock(self, ahead_ms: int) -> None:
        """Its clock jumps: so far ahead of the system's."""
        self.recorder.note("chaos", "fault", fault="clock", ahead_ms=ahead_ms)
        with self._clock_file.open("r+") as file:
            file.write(f"{ahead_ms:20}")

    def now_ms(self) -> int:
        """The time of its clock."""
        return SystemClock().now_ms() + int(self._clock_file.read_text())
