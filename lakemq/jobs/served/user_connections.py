"""How many connections to the server beside the jobs each user has. Of how many one may have, the brokers decide."""

from __future__ import annotations

from weakref import WeakValueDictionary

from lakemq.web.seat import Seat


class _Connections:
    """Of one user. Only seats keep it, so of users without connections nothing is kept."""

    __slots__ = ("__weakref__", "connections")

    def __init__(self) -> None:
        self.connections = 0


class UserConnections:
    """Those of one server. Lives on its loop."""

    def __init__(self) -> None:
        self._of: WeakValueDictionary[str, _Connections] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self._of)

    def enter(self, user: str, seat: Seat) -> int | None:
        """The connection is this user's from now on; without a name it is nobody's. How many others the user has; None:
        that doesn't matter, as it was this user's before, or is nobody's."""
        if not user:
            seat.leave()
            return None
        of = self._of.get(user)
        if of is None:
            of = self._of[user] = _Connections()
        if seat.of is of:
            return None
        others = of.connections
        seat.move(of)
        return others
