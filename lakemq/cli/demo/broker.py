"""The demo's broker and jobs: a `lakemq up` of its own."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from lakemq.cli.options import url_of
from lakemq.cli.supervisor import describe_exit, start_child, stop_child
from lakemq.cli.up import take_port
from lakemq.client.http import HttpClient
from lakemq.model.errors import LakemqError

HOST = "127.0.0.1"
READY_S_MAX = 60.0
STOP_GRACE_S = 75.0
SETTINGS = {"LAKEMQ_TRANSACTIONS__TIMEOUT_MS": "2000"}
"""All else is set as everywhere. A producer that died is noticed sooner: people watch."""


@dataclass(frozen=True)
class Places:
    """The folders and files of one demo."""

    root: Path

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def lake(self) -> Path:
        return self.root / "lake"

    @property
    def log(self) -> Path:
        return self.root / "lakemq.log"


class Broker:
    """A running `lakemq up`. `keep`: it may live on after this process. `by_tls`: its settings have TLS."""

    def __init__(self, places: Places, config: Path | None, *, keep: bool, by_tls: bool = False) -> None:
        self.places = places
        port = take_port(HOST, 0)
        self.url = url_of(HOST, port, by_tls)
        leading = [] if config is None else ["--config", str(config)]
        arguments = [
            *("up", "--host", HOST, "--port", str(port)),
            *("--data-dir", str(places.data), "--lake", str(places.lake)),
        ]
        self._process: subprocess.Popen[bytes] = start_child(
            [*leading, *arguments], detached=keep, log=places.log, environment=SETTINGS
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self, client: HttpClient) -> None:
        """Raises `LakemqError` if the gateway ends or is not ready in time."""
        end_s = time.monotonic() + READY_S_MAX
        while not client.is_ready():
            self.check_alive()
            if time.monotonic() > end_s:
                raise LakemqError(f"the broker was not ready within {READY_S_MAX:.0f} s")
            time.sleep(0.05)

    def check_alive(self) -> None:
        """Raises `LakemqError` with the last line of its log if the broker has ended."""
        code = self._process.poll()
        if code is not None:
            raise LakemqError(f"the broker {describe_exit(code)}: {self._last_line()}")

    def stop(self) -> None:
        """Stop the gateway and the jobs."""
        stop_child(self._process, STOP_GRACE_S)

    def _last_line(self) -> str:
        lines = self.places.log.read_text(errors="replace").splitlines()
        return next((line for line in reversed(lines) if line.strip()), "it said nothing")
