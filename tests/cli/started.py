"""`lakemq …` in a process of its own that starts without its imports: `FOLDER LOG ARGUMENT…`, from a fork server.

What a command's process does first is to import for a second or two; here the fork server has done it. What it starts
itself (`lakemq up` its gateway) starts whole.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import cast

from lakemq.cli import main
from tests.reliability.fork_server import CONSOLE, SERVERS, ForkServer, LazyForks

ROOT = Path(__file__).parents[2]
IMPORTED = ("lakemq.cli.app", "lakemq.client", "lakemq.web.tls", *SERVERS, *CONSOLE)


@contextmanager
def heeding_interrupts() -> Generator[None]:
    """What is started meanwhile can be interrupted, though a shell has this run in the background, where that is
    ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _fork_server(*modules: str) -> ForkServer:
    with chdir(ROOT), heeding_interrupts():
        return ForkServer(*modules)


class Commands:
    """The fork server of commands, there once the first of them starts."""

    def __init__(self) -> None:
        self._forks = LazyForks(_fork_server)

    def start(
        self, arguments: Sequence[str], folder: Path, log: Path, environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes]:
        """Start `lakemq` in that folder; `log` gets what it writes, after what stands there."""
        command = [sys.executable, "-m", "tests.cli.started", str(folder), str(log.absolute()), *arguments]
        process = self._forks.popen(IMPORTED, command, environment)
        assert process.stderr is not None
        process.stderr.close()  # it writes to its log
        return cast("subprocess.Popen[bytes]", process)

    def close(self) -> None:
        """End the fork server, and whatever it started."""
        self._forks.close()


def _be(folder: str, log: str, arguments: list[str]) -> None:
    os.setsid()
    os.chdir(folder)
    written = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for place, descriptor in enumerate((os.open(os.devnull, os.O_RDONLY), written, written)):
        os.dup2(descriptor, place)
    sys.argv = ["lakemq", *arguments]
    try:
        main()
    finally:
        sys.stdout.flush()  # a forked process ends without it


if __name__ == "__main__":
    _be(sys.argv[1], sys.argv[2], sys.argv[3:])
