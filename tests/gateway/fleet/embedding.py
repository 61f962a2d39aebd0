"""Replicas of a broker in this process, on files that can be made to fail or wait."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from lakemq import settings
from lakemq.gateway.process.embedded import Embedded
from lakemq.settings import Settings
from lakemq.storage.disk.files import Files
from tests.as_administrator import AsAdministrator
from tests.gateway.fleet.electing import SYNC
from tests.gateway.http_client import WAIT_S

OPTIONS: dict[str, Any] = {**SYNC, "fleet__lease_ms": 2_000, "replication__silent_ms": 2_000}
STILL_S = 1.0
"""As that of `electing`, of half the lease."""


def chosen(root: Path, replica: int, **options: Any) -> Settings:
    options = {
        **OPTIONS,
        **options,
        "broker__replica": replica,
        "gateway__port": 0,
        "storage__data_dir": root / str(replica),
        "fleet__store": f"file://{root / 'store'}",
    }
    layer: dict[str, dict[str, Any]] = {}
    for name, value in options.items():
        section, _, key = name.partition("__")
        layer.setdefault(section, {})[key] = value
    return settings.load(Path(os.devnull), {}, layer)


@contextmanager
def replica(root: Path, number: int, files: Files, **options: Any) -> Generator[httpx.Client]:
    """One of them, of which all have a store in `root`."""
    (root / "store").mkdir(exist_ok=True)
    gateway = Embedded(chosen(root, number, **options), files=files)
    try:
        with httpx.Client(base_url=gateway.url, timeout=WAIT_S, trust_env=False, auth=AsAdministrator()) as http:
            yield http
    finally:
        gateway.stop()
