"""A broker for tests of programs that use lakemq: in their process, with its log in memory."""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lakemq import settings
from lakemq.storage.disk.clock import Clock
from lakemq.testing.memory_files import MemoryFiles

SEGMENT_BYTES = 32 * 1024 * 1024
LOG_BYTES_MAX = 8 * SEGMENT_BYTES
LEAD_MS = 600_000
_NOWHERE = Path("/lakemq")
_DEFAULTS: dict[str, Any] = {
    "gateway__port": 0,
    "storage__data_dir": _NOWHERE,
    "storage__free_bytes_min": 0,
    "storage__segment_bytes": SEGMENT_BYTES,
    "storage__log_bytes_max": LOG_BYTES_MAX,
    "routing__lead_ms": LEAD_MS,
    "routing__grace_ms": 0,
    "lake__dir": _NOWHERE / "lake",
}


class MemoryBroker:
    """A broker on a free port of 127.0.0.1 that speaks the whole HTTP contract; clients use it by its `url`.

    It starts in milliseconds and writes nothing to disk; what it holds is gone when it stops. There is neither Spark
    nor a lake. What routing queries would decide it decides itself: delays of up to ten minutes on their millisecond,
    longer ones and checks some seconds late.

    Options are settings as `section__key=value`; settings of files and of the environment are not looked at. Past
    `storage__log_bytes_max` (256 MiB) it refuses messages, with `StoreUnwritable`. `clock`: the broker's time, in place
    of the system's. Use it as a context manager, or `stop` it. Raises `SettingsError`, and
    `CantListen` when a port that was chosen is taken.
    """

    def __init__(self, clock: Clock | None = None, **options: Any) -> None:
        # Only now: what a gateway is made of takes a second to import, and those who start a process need none here.
        from lakemq.gateway.process.embedded import Embedded

        layer: dict[str, dict[str, Any]] = {}
        for name, value in {**_DEFAULTS, **options}.items():
            section, _, key = name.partition("__")
            layer.setdefault(section, {})[key] = value
        chosen = settings.load(Path(os.devnull), {}, layer)
        self.files = MemoryFiles()
        self._data_dir = chosen.storage.data_dir
        self._gateway = Embedded(chosen, clock, self.files)

    @property
    def url(self) -> str:
        """Where it listens: `brokers` of a client, or `LAKEMQ_BROKER`."""
        return self._gateway.url

    @property
    def token(self) -> str:
        """The administrator's: of clients that erase, or write to sinks, or where `auth__required` is set. It is in no
        file, so they don't find it by themselves."""
        return self.files.read_whole(self._data_dir / "admin.token").decode().strip()

    def stop(self) -> None:
        """Answer who waits, and end."""
        self._gateway.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()
