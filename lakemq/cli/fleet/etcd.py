"""The fleet's etcd, of one member: Debian's, which `make setup` unpacks, or the machine's own."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from lakemq.cli.fleet.foreign import foreign
from lakemq.cli.fleet.http import answer_of
from lakemq.cli.fleet.processes import Launch
from lakemq.cli.options import url_of
from lakemq.cli.up import take_port
from lakemq.model.errors import LakemqError

UNPACKED = "etcd/usr/bin/etcd"
"""Where `make setup` has put it, within the environment of this Python."""


def find_etcd() -> str:
    """The program. Raises `LakemqError` where there is none."""
    unpacked = Path(sys.prefix) / UNPACKED
    found = str(unpacked) if unpacked.exists() else shutil.which("etcd")
    if found is None:
        raise LakemqError(
            "a fleet needs etcd for the election: in a checkout `make setup` installs "
            "it; otherwise install Debian's package etcd-server"
        )
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
        options = {
            "--name": "one",
            "--data-dir": str(self._data),
            "--log-level": "error",
            "--logger": "zap",
            "--listen-client-urls": self.url,
            "--advertise-client-urls": self.url,
            "--listen-peer-urls": self._peers,
            "--initial-advertise-peer-urls": self._peers,
            "--initial-cluster": f"one={self._peers}",
        }
        return foreign(self._program, *(part for option in options.items() for part in option))

    def is_ready(self) -> bool:
        """Whether it answers, and has a leader."""
        return b'"true"' in answer_of(self.url, "/health")
