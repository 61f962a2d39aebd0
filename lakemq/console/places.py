"""Pages that are kept current: so many at once, of which one user leaves some; none once the console stops."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from lakemq.model.errors import Busy
from lakemq.web.room import Room


class Places:
    """So many of them, and that `share` for one user."""

    def __init__(self, most: int, share: float) -> None:
        self._room = Room.shared(most, share)
        self.stopping = asyncio.Event()

    @property
    def taken(self) -> int:
        """So many are."""
        return self._room.taken

    def check(self, user: str) -> None:
        """Raises `Busy` where there is none for this user."""
        if self._room.is_full:
            raise Busy(f"{self._room.most} pages are live already, the limit console.live_max")
        if self._room.is_full_for(user):
            raise Busy("this user has as many live pages as one may (console.client_share of console.live_max)")

    @contextmanager
    def place(self, user: str) -> Generator[None]:
        """One of them, meanwhile. Raises `Busy` where there is none: others may have come since the `check`."""
        self.check(user)
        with self._room.place(user):
            yield
