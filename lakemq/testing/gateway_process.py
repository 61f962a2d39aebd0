"""A real gateway in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

READY = re.compile(r"gateway: listening on (http://\S+)")
START_S_MAX = 60
Spawn = Callable[[Sequence[str], Mapping[str, str]], "subprocess.Popen[str]"]


def _spawn(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603  this Python, with arguments of our own
        command, env=environment, stderr=subprocess.PIPE, text=True
    )


spawn_by_default: Spawn = _spawn
"""How gateways are started where nothing else is said. A run of many tests may set it to something quicker."""


class GatewayProcess:
    """A gateway on a free port of 127.0.0.1. `log` is what it has written to stderr."""

    def __init__(
        self,
        data_dir: Path,
        options: dict[str, object],
        clock_offset_ms: int | Path = 0,
        module: str | None = None,
        spawn: Any = None,
    ) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKEMQ_")}
        environment |= {"LAKEMQ_GATEWAY__PORT": "0", "LAKEMQ_STORAGE__DATA_DIR": str(data_dir)}
        environment |= {f"LAKEMQ_{name.upper()}": str(value) for name, value in options.items()}
        command = [sys.executable, "-m", "lakemq.gateway"]
        if clock_offset_ms:
            command = [sys.executable, "-m", "lakemq.testing", str(clock_offset_ms)]
        if module is not None:
            command = [sys.executable, "-m", module, str(clock_offset_ms)]
        self._process = (spawn or (spawn_by_default if module is None else _spawn))(command, environment)
        self.log: list[str] = []
        self.url = ""
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._ready.wait(START_S_MAX) or not self.url:
            self.kill()
            raise RuntimeError("the gateway did not start: " + "".join(self.log))

    def _read(self) -> None:
        stream = self._process.stderr
        assert stream is not None
        for line in stream:
            self.log.append(line)
            found = READY.search(line)
            if found is not None:
                self.url = found.group(1)
                self._ready.set()
        self._ready.set()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    def poll(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """kill -9: what a crash does."""
        self._process.kill()
        self._wait()

    def stop(self) -> int:
        """Stop it as an operator would; returns its exit code."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._wait()

    def _wait(self) -> int:
        try:
            code = self._process.wait(START_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise RuntimeError(f"the gateway did not end within {START_S_MAX} s: {''.join(self.log)}") from None
        self._reader.join(START_S_MAX)
        if self._process.stderr is not None:
            self._process.stderr.close()
        return code

    def __enter__(self) -> GatewayProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_gateway(
    data_dir: Path, clock_offset_ms: Any = 0, module: Any = None, spawn: Any = None, **options: Any
) -> GatewayProcess:
    """Start a gateway and wait until it is ready; raises `RuntimeError` with its log if it isn't.

    Options are settings as `section__key=value`; all others have their defaults. To go on at the
    same address after a restart, give `gateway__port`. `clock_offset_ms`: its clock is so much ahead
    of the system's: an hour passes without a wait; a path: of a file in which that stands, so that it can
    jump. `module`: run this instead of the gateway, with that as its argument: a gateway with a bug in it.
    `spawn` starts the process, in place of `subprocess.Popen`; so does `spawn_by_default`, but for a `module`.
    """
    return GatewayProcess(data_dir, options, clock_offset_ms, module, spawn)
