"""A real etcd of one member for tests, in a process of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import monotonic, sleep

import httpx

from lakemq.cli.fleet import etcd
from lakemq.model.errors import LakemqError
from tests.ports import HOST, free_port

STARTS_WITHIN_S = 60.0
IN_MEMORY = Path("/dev/shm")
"""What it brings to disk needs no disk here."""


def find_etcd() -> str | None:
    """As a fleet finds it; None where there is none."""
    try:
        return etcd.find_etcd()
    except LakemqError:
        return None


class EtcdServer:
    """It, from `start` on until `stop`. It ends with the thread that started it, however that ends, where `setpriv` is
    there: so it is the main thread that has to start it."""

    def __init__(self, program: str, host: str = HOST, within: Sequence[str] = ()) -> None:
        """`within`: what stands before its command where it is to run in another network, and listen at `host`."""
        self._program = program
        self._within = within
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = Path(tempfile.mkdtemp("", "lakemq-etcd-", IN_MEMORY if IN_MEMORY.is_dir() else None))
        self._log = self._folder / "log"
        self.address = f"http://{host}:{free_port()}"
        self._peers = f"http://{host}:{free_port()}"

    def start(self) -> None:
        """Start it, with what it had, and return when it answers."""
        bound = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        own = {"--name": "one", "--data-dir": str(self._folder / "data"), "--logger": "zap", "--log-level": "error"}
        clients = {"--listen-client-urls": self.address, "--advertise-client-urls": self.address}
        peers = {"--listen-peer-urls": self._peers, "--initial-advertise-peer-urls": self._peers}
        options = {**own, **clients, **peers, "--initial-cluster": f"one={self._peers}"}
        command = [*self._within, *bound, self._program, *(part for option in options.items() for part in option)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, env={"PATH": os.environ["PATH"]})
        until_s = monotonic() + STARTS_WITHIN_S
        while not self._is_well():
            if self._process.poll() is not None or monotonic() > until_s:
                raise AssertionError(f"etcd doesn't start: {self._log.read_text(errors='replace')[-2000:]}")
            sleep(0.02)

    def _is_well(self) -> bool:
        try:
            answer = httpx.get(f"{self.address}/health", trust_env=False, timeout=5)
        except httpx.HTTPError:
            return False
        return answer.status_code == 200 and answer.json()["health"] == "true"

    def kill(self) -> None:
        """End it at once; `start` goes on with what it had."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def forget(self) -> None:
        """What it had is lost; it is not running."""
        shutil.rmtree(self._folder / "data")

    def stop(self) -> None:
        """End it for good."""
        self.kill()
        shutil.rmtree(self._folder)
