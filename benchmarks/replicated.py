"""A broker of two replicas for one measure, with a leader that is elected by a store in a folder."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from benchmarks.broker import gateway, positions
from lakemq.testing import GatewayProcess

READY_S_MAX = 120.0
BOTH = [0, 1]


@contextlib.contextmanager
def two_replicas(folder: Path, **options: Any) -> Generator[tuple[GatewayProcess, GatewayProcess]]:
    """Leader and follower, in sync with each other; options as `section__key=value`, of both."""
    store = folder / "store"
    store.mkdir(parents=True)
    options |= {"fleet__leader": "object-store", "fleet__store": f"file://{store}"}
    with (
        gateway(folder / "0", **options) as leader,
        gateway(folder / "1", **options, broker__replica=1) as follower,
    ):
        wait_in_sync(leader)
        yield leader, follower


def wait_in_sync(leader: GatewayProcess) -> None:
    """Wait until both are. Raises `TimeoutError`."""
    deadline = time.monotonic() + READY_S_MAX
    while positions(leader.url)["in_sync"] != BOTH:
        if time.monotonic() > deadline:
            raise TimeoutError("the follower is not in sync")
        time.sleep(0.02)
