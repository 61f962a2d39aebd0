"""The connections of one server, each at its place: those that are served, and the few that are told why not."""

from __future__ import annotations

from enum import IntEnum

from lakemq.web.asgi import Client
from lakemq.web.room import Room

TOLD_SHARE = 0.05
"""So many are told at once, of those that may be served, but always a few."""
TOLD_PER_CLIENT_MAX = 4
TOLD_S = 2.0
"""So long one is kept until it has asked, and is told."""


class Place(IntEnum):
    """Where a connection is: served; refused, and kept to be told so; or refused without a word."""

    SERVED = 0
    TOLD = 1
    NONE = 2


class Places:
    """The limits look at those that are served alone: whoever is refused takes none of the others' room."""

    def __init__(self, served_max: int, served_per_client_max: int) -> None:
        self._served = Room(served_max, served_per_client_max)
        self._told = Room(max(int(served_max * TOLD_SHARE), TOLD_PER_CLIENT_MAX), TOLD_PER_CLIENT_MAX)

    @property
    def connections(self) -> int:
        """How many there are, served or not."""
        return self._served.taken + self._told.taken

    def refusal(self, client: Client) -> str | None:
        """Why this client's next connection isn't served; None: it is."""
        if self._served.is_full:
            return "the server has as many connections as it may"
        if self._served.is_full_for(client):
            return "this client has as many connections as it may"
        return None

    def take(self, client: Client, refused: bool, tells: bool = True) -> Place:
        """Give a connection its place. `tells`: it could be told why it is refused."""
        if not refused:
            self._served.take(client)
            return Place.SERVED
        if not tells or not self._told.has_room(client):
            return Place.NONE
        self._told.take(client)
        return Place.TOLD

    def leave(self, client: Client, place: Place) -> None:
        """A connection that had that place is closed."""
        if place is Place.SERVED:
            self._served.leave(client)
        elif place is Place.TOLD:
            self._told.leave(client)
