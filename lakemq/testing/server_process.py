"""A server of lakemq in a process of its own."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

START_S_MAX = 60
Spawn = Callable[[Sequence[str], Mapping[str, str]], "subprocess.Popen[str]"]


def spawn(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    """Start a process of its own."""
    return subprocess.Popen(  # noqa: S603  this Python, with arguments of our own
        command, env=environment, stderr=subprocess.PIPE, text=True
    )


class ServerProcess:
    """One that says on stderr where it listens, as `{name}: listening on {url}`. `log` is what it has written there."""

    def __init__(self, name: str, command: Sequence[str], environment: Mapping[str, str], spawn: Spawn) -> None:
        """Return when it is ready; raises `RuntimeError` with its log if it doesn't get so far."""
        self._name = name
        self._ready_line = re.compile(rf'{name}: listening on (https?://[^\s"]+)')
        self._process: Any = spawn(command, environment)
        self.log: list[str] = []
        self.url = ""
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._ready.wait(START_S_MAX) or not self.url:
            self.kill()
            raise RuntimeError(f"the {name} did not start: " + "".join(self.log))

    def _read(self) -> None:
        stream = self._process.stderr
        assert stream is not None
        for line in stream:
            self.log.append(line)
            found = self._ready_line.search(line)
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
            raise RuntimeError(f"the {self._name} did not end within {START_S_MAX} s: {''.join(self.log)}") from None
        self._reader.join(START_S_MAX)
        if self._process.stderr is not None:
            self._process.stderr.close()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
