"""The connections of one server, each at its place: those that are served, and the few that are told why not."""

from __future__ import annotations

from enum import IntEnum

from lakemq.model.network import network_of
from lakemq.web.asgi import Client

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


class _Taken:
    """How many connections are at one kind of place, of each client, by its network, and of all."""

    __slots__ = ("all", "of")

    def __init__(self) -> None:
        self.all = 0
        self.of: dict[Client, int] = {}

    def count(self, client: Client) -> int:
        return self.of.get(network_of(client), 0)

    def add(self, client: Client) -> None:
        client = network_of(client)
        self.all += 1
        self.of[client] = self.of.get(client, 0) + 1

    def remove(self, client: Client) -> None:
        client = network_of(client)
        self.all -= 1
        self.of[client] -= 1
        if not self.of[client]:
            del self.of[client]


class Places:
    """The limits look at those that are served alone: whoever is refused takes none of the others' room."""

    def __init__(self, served_max: int, served_per_client_max: int) -> None:
        self._served_max, self._per_client_max = served_max, served_per_client_max
        self._told_max = max(int(served_max * TOLD_SHARE), TOLD_PER_CLIENT_MAX)
        self._served, self._told = _Taken(), _Taken()

    @property
    def connections(self) -> int:
        """How many there are, served or not."""
        return self._served.all + self._told.all

    def refusal(self, client: Client) -> str | None:
        """Why this client's next connection isn't served; None: it is."""
        if self._served.all >= self._served_max:
            return "the server has as many connections as it may"
        if self._served.count(client) >= self._per_client_max:
            return "this client has as many connections as it may"
        return None

    def take(self, client: Client, refused: bool, tells: bool = True) -> Place:
        """Give a connection its place. `tells`: it could be told why it is refused."""
        if not refused:
            self._served.add(client)
            return Place.SERVED
        if not tells or self._told.all >= self._told_max or self._told.count(client) >= TOLD_PER_CLIENT_MAX:
            return Place.NONE
        self._told.add(client)
        return Place.TOLD

    def leave(self, client: Client, place: Place) -> None:
        """A connection that had that place is closed."""
        if place is Place.SERVED:
            self._served.remove(client)
        elif place is Place.TOLD:
            self._told.remove(client)
