"""How long requests took, by route and status: no more histograms than routes, times the statuses that occur."""

from __future__ import annotations

from collections.abc import Iterator

from lakemq.contract.route import Route
from lakemq.model.histogram import Histogram

ROUTE = "lakemq.route"
"""The key in ASGI's scope of the route that was found."""
METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"))
"""Told by name where there is no route; others, of which there may be any number, are `_OTHER`."""
Key = Route | str
"""Or the method of what fits no route."""


class Durations:
    """Of one server, since the process began."""

    def __init__(self) -> None:
        self._noted: dict[tuple[Key, int], Histogram] = {}

    def of(self, route: Key, status: int) -> Histogram:
        """The histogram of the route's requests that were answered so, to note more in."""
        found = self._noted.get((route, status))
        if found is None:
            key = "_OTHER" if isinstance(route, str) and route not in METHODS else route
            found = self._noted.setdefault((key, status), Histogram())
        return found

    def all(self) -> Iterator[tuple[tuple[str, str, str], Histogram]]:
        """Each with its method, its path as the contract has it, and its status."""
        for (route, status), found in sorted(self._noted.items(), key=lambda each: (_names(each[0][0]), each[0][1])):
            yield (*_names(route), str(status)), found


def _names(route: Key) -> tuple[str, str]:
    return (route, "") if isinstance(route, str) else (route.method, route.path)
