"""How an application is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

State = Literal["new", "running", "stopping", "stopped"]


@dataclass(frozen=True, slots=True)
class Health:
    """The state of an application. `connected`: by group, whether a broker has received a recent heartbeat of its
    consumer. `in_hand`: running calls of listeners; `processed` and `failed`: calls that have ended, since the
    application was created."""

    state: State
    connected: Mapping[str, bool]
    in_hand: int
    processed: int
    failed: int

    @property
    def ready(self) -> bool:
        """Whether it is running, and all its groups are connected."""
        return self.state == "running" and all(self.connected.values())


class Counts:
    """Counts calls, of any thread."""

    def __init__(self) -> None:
        self.in_hand = 0
        self.processed = 0
        self.failed = 0
        self.on_idle: Callable[[], object] | None = None
        """Told as no call is under way any more."""
        self._lock = threading.Lock()

    @contextmanager
    def call(self) -> Generator[None, None, None]:
        """A call of a listener."""
        with self._lock:
            self.in_hand += 1
        done = False
        try:
            yield
            done = True
        finally:
            with self._lock:
                self.in_hand -= 1
                self.processed += done
                self.failed += not done
                idle = self.in_hand == 0
            if idle and self.on_idle is not None:
                self.on_idle()
