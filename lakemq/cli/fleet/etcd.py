"""The fleet's etcd, of one member: Debian's, which `make setup` unpacks, or the machine's own.

`python -m lakemq.cli.fleet.etcd PARENT_PID PROGRAM ARGUMENT…` becomes that program, and ends with its parent.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from lakemq.cli.fleet.processes import Launch
from lakemq.cli.lifeline import end_with_parent
from lakemq.cli.options import url_of
from lakemq.cli.up import take_port
from lakemq.model.errors import LakemqError

UNPACKED = "etcd/usr/bin/etcd"
"""Where `make setup` has put it, within the environment of this Python."""
_ANSWER_S = 2.0
_BYTES_MAX = 1000


def find_etcd() -> str:
    """The program. Raises `LakemqError` where there is none."""
    unpacked = Path(sys.prefix) / UNPACKED
    found = str(unpacked) if unpacked.exists() else shutil.which("etcd")
    if found is None:
        raise LakemqError("a fleet needs etcd, which says who leads; `make setup` gets it")
    return found


class Etcd:
    """Its addresses, and how it is started."""

    def __init__(self, data: Path, host: str) -> None:
        self._program = find_etcd()
        self._data = data
        self.url = url_of(host, take_port(host, 0))
        self._peers = url_of(host, take_port(host, 0))

    @property
    def launch(self) -> Launch:
        return self._start

    def _start(self, log: Path, detached: bool) -> subprocess.Popen[bytes]:
        options = {
            "--name": "one",
            "--data-dir": str(self._data),
            "--log-level": "error",
            "--listen-client-urls": self.url,
            "--advertise-client-urls": self.url,
            "--listen-peer-urls": self._peers,
            "--initial-advertise-peer-urls": self._peers,
            "--initial-cluster": f"one={self._peers}",
        }
        parent = "0" if detached else str(os.getpid())
        arguments = [part for option in options.items() for part in option]
        command = [sys.executable, "-m", "lakemq.cli.fleet.etcd", parent, self._program, "--logger", "zap", *arguments]
        with log.open("ab") as output:
            return subprocess.Popen(  # noqa: S603  (our own module)
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=detached,
                process_group=None if detached else 0,
            )

    def is_ready(self) -> bool:
        """Whether it answers, and has a leader."""
        with closing(HTTPConnection(self.url.rpartition("/")[2], timeout=_ANSWER_S)) as connection:
            try:
                connection.request("GET", "/health")
                return b'"true"' in connection.getresponse().read(_BYTES_MAX)
            except (OSError, HTTPException):
                return False


def main() -> int:
    """Become the program, which inherits the signal that comes when the parent ends."""
    parent_pid, program, *arguments = sys.argv[1:]
    if parent_pid != "0":
        end_with_parent(int(parent_pid), signal.SIGKILL)
    os.execv(program, [program, *arguments])  # noqa: S606  (no shell is wanted)


if __name__ == "__main__":
    sys.exit(main())
