"""The gateway under faults: where it is now, and what is done to it."""

from __future__ import annotations

import os
import resource
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from lakemq.storage.disk.clock import SystemClock
from lakemq.testing import GatewayProcess, start_gateway
from lakemq.testing.history import Recorder
from lakemq.testing.history.hand_outs import START
from tests.reliability.fork_server import ForkServer


class Left(NamedTuple):
    """What clients have left unfinished, for those of later lives: `(payload, id)` of receipts and of transactions."""

    receipts: list[tuple[str, str]]
    transactions: list[tuple[str, str]]


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
        self.flush = "async"
        """How this life brings to disk what says nothing else of it."""
        self.left = Left([], [])
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

    def start(self, flush: str = "async") -> None:
        """The next life. Raises `RuntimeError` with its log if it doesn't begin."""
        self.lives += 1
        self.flush = flush
        options = self._options | {"storage__flush": flush}
        self.recorder.note("chaos", "fault", fault=START)
        try:
            self._gateway = start_gateway(self.data_dir, self._clock_file, self._module, **self._spawn, **options)
        except RuntimeError as error:
            self.log += str(error).splitlines(keepends=True)
            raise

    def kill(self) -> None:
        """kill -9. Raises `RuntimeError` if it had ended by itself."""
        self.recorder.note("chaos", "fault", fault="kill")
        self.check_alive()
        self._end(GatewayProcess.kill)

    def stop(self) -> None:
        """Stop it as an operator would. Raises `RuntimeError` if it had ended by itself, or ends with an error."""
        self.recorder.note("chaos", "fault", fault="stop")
        self.check_alive()
        code = self._end(GatewayProcess.stop)
        if code:
            raise RuntimeError(f"the gateway was stopped and ended with exit code {code}")

    def end(self) -> None:
        """Let no process be left."""
        if self._gateway is not None:
            self.stop()

    def __enter__(self) -> Target:
        return self

    def __exit__(self, *_: object) -> None:
        if self._gateway is not None:
            self._end(GatewayProcess.kill)

    def check_alive(self) -> None:
        """Raises `RuntimeError` if it has ended by itself."""
        code = self.running.poll()
        if code is not None:
            self._end(GatewayProcess.kill)
            raise RuntimeError(f"the gateway ended by itself, with exit code {code}")

    def _end(self, end: Callable[[GatewayProcess], int | None]) -> int | None:
        gateway, self._gateway = self.running, None
        try:
            return end(gateway)
        finally:
            self.log += gateway.log

    def freeze(self, seconds: float) -> None:
        """SIGSTOP, for so long."""
        self.check_alive()
        pid = self.running.pid
        self.recorder.note("chaos", "fault", fault="freeze")
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            os.kill(pid, signal.SIGCONT)

    def exhaust_descriptors(self, seconds: float, room: int) -> None:
        """For so long it can open only so many files and connections more."""
        self.check_alive()
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
