"""A connection's place among those of one user: of whom it showed last."""

from __future__ import annotations

from typing import Protocol

SEAT = "lakemq.seat"
"""Where a request's scope has that of its connection."""


class Counted(Protocol):
    """Whose connections are counted."""

    connections: int


class Seat:
    """A connection's. It is one of nobody's at first."""

    __slots__ = ("_closed", "of")

    def __init__(self) -> None:
        self.of: Counted | None = None
        self._closed = False

    def move(self, to: Counted) -> None:
        """It is one of these from now on, unless the connection was closed meanwhile."""
        self.leave()
        if self._closed:
            return
        to.connections += 1
        self.of = to

    def leave(self) -> None:
        """It is nobody's any more."""
        if self.of is not None:
            self.of.connections -= 1
            self.of = None

    def close(self) -> None:
        """The connection is closed: it is nobody's, for good."""
        self.leave()
        self._closed = True
