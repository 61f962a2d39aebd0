"""Room that clients share, of which each may have only a part."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

from lakemq.model.network import network_of
from lakemq.web.asgi import Client

H = TypeVar("H")


class Room:
    """So much at most, and so much for one client, known by its network: connections, requests that wait, bytes."""

    __slots__ = ("_of", "each_most", "most", "taken")

    def __init__(self, most: int, each_most: int) -> None:
        self.most, self.each_most = most, each_most
        self.taken = 0
        self._of: dict[Client, int] = {}

    @classmethod
    def shared(cls, most: int, share: float) -> Room:
        """Room of which one client may have that share, or else one."""
        return cls(most, max(int(most * share), 1))

    def of(self, client: Client) -> int:
        """How much of it the client has."""
        return self._of.get(network_of(client), 0)

    @property
    def is_full(self) -> bool:
        """Whether there is no more for anybody."""
        return self.taken >= self.most

    def is_full_for(self, client: Client) -> bool:
        """Whether the client has all that it may have."""
        return self.of(client) >= self.each_most

    def has_room(self, client: Client) -> bool:
        """Whether one more of that client's is let in."""
        return not self.is_full and not self.is_full_for(client)

    def take(self, client: Client, size: int = 1) -> None:
        """Count so much more as the client's."""
        client = network_of(client)
        self.taken += size
        self._of[client] = self._of.get(client, 0) + size

    def leave(self, client: Client, size: int = 1) -> None:
        """Count so much less."""
        client = network_of(client)
        self.taken -= size
        left = self._of.get(client, 0) - size
        if left:
            self._of[client] = left
        else:
            self._of.pop(client, None)

    def place(self, client: Client, size: int = 1, refusal: Exception | None = None) -> Place:
        """Within it so much is the client's. `refusal` is raised where the client has all that it may have."""
        return Place(self, client, size, refusal)


class Place:
    """`Room.place`. A class: each long poll takes one, and a generator costs three times as much."""

    __slots__ = ("_client", "_refusal", "_room", "_size")

    def __init__(self, room: Room, client: Client, size: int, refusal: Exception | None) -> None:
        self._room, self._client, self._size, self._refusal = room, client, size, refusal

    def __enter__(self) -> None:
        if self._refusal is not None and self._room.is_full_for(self._client):
            raise self._refusal
        self._room.take(self._client, self._size)

    def __exit__(self, *_: object) -> None:
        self._room.leave(self._client, self._size)


class Holders(Generic[H]):
    """Who holds how much of a room, of all and of each client, in the order in which they were put last."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self._all: OrderedDict[H, tuple[Client, int]] = OrderedDict()
        self._of: dict[Client, OrderedDict[H, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def size_of(self, holder: H) -> int:
        """How much it holds."""
        return self._all.get(holder, (None, 0))[1]

    def count_of(self, client: Client) -> int:
        """How many of the client's hold some."""
        return len(self._of.get(network_of(client), ()))

    def put(self, holder: H, client: Client, size: int) -> None:
        """It holds so much now, and is the last in the order."""
        self.remove(holder)
        client = network_of(client)
        self._all[holder] = client, size
        self._of.setdefault(client, OrderedDict())[holder] = None
        self.room.take(client, size)

    def remove(self, holder: H) -> None:
        """It holds nothing any more."""
        client, size = self._all.pop(holder, (None, None))
        if size is None:
            return
        self.room.leave(client, size)
        of_client = self._of[client]
        del of_client[holder]
        if not of_client:
            del self._of[client]

    def first(self) -> H:
        """Who was put longest ago."""
        return next(iter(self._all))

    def first_of(self, client: Client) -> H:
        """Who of the client's was."""
        return next(iter(self._of[network_of(client)]))
