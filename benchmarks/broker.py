"""A gateway for one measure: on fresh files, stopped and removed at its end."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from benchmarks.wire import ask
from lakemq.testing import GatewayProcess, start_gateway


@contextlib.contextmanager
def scratch() -> Generator[Path]:
    """A folder that is removed at the end. TMPDIR says on which disk."""
    with tempfile.TemporaryDirectory(prefix="lakemq-bench-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextlib.contextmanager
def gateway(folder: Path, **options: object) -> Generator[GatewayProcess]:
    """A gateway on the data in `folder`; options as `section__key=value`."""
    process = start_gateway(folder, 0, **options)
    try:
        yield process
    finally:
        with contextlib.suppress(Exception):
            process.stop()
        process.kill()


def make_topic(url: str, topic: str, queues: int) -> None:
    """Make a topic."""
    ask(url, "PUT", f"/v1/topics/{topic}", {"queues": queues})


def positions(url: str) -> dict[str, Any]:
    """The broker's positions."""
    return ask(url, "GET", "/v1/broker")


def wait_flushed(url: str, seconds_max: float = 120) -> None:
    """Wait until all that is stored is on disk."""
    deadline = time.monotonic() + seconds_max
    while (now := positions(url))["flushed_position"] < now["max_position"]:
        if time.monotonic() > deadline:
            raise TimeoutError("the log is not flushed")
        time.sleep(0.02)


def log_bytes(folder: Path) -> int:
    """The bytes of the log's segments."""
    return sum(file.stat().st_size for file in folder.rglob("*.log"))
