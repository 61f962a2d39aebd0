"""Pages that are kept current: so many at once, and none once the console stops."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from lakemq.model.errors import Busy


class Places:
    """So many of them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken = 0
        self.stopping = asyncio.Event()

    @property
    def taken(self) -> int:
        """So many are."""
        return self._taken

    def check(self) -> None:
        """Raises `Busy` where there is none."""
        if self._taken >= self._most:
            raise Busy(f"{self._most} pages are live already, the limit console.live_max")

    @contextmanager
    def place(self) -> Generator[None]:
        """One of them, meanwhile. Raises `Busy` where there is none: others may have come since the `check`."""
        self.check()
        self._taken += 1
        try:
            yield
        finally:
            self._taken -= 1
