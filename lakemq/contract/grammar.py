"""Which route a request's path is, by one walk along its segments."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from lakemq.contract.route import Route, is_name
from lakemq.contract.routes import ALL

PATHS_KEPT = 1024
PATH_KEPT_MAX = 256
"""Characters of a path that is kept with its route."""


class Found(NamedTuple):
    """A route, and the values of its names in their order."""

    route: Route
    values: tuple[str, ...]


class _Node:
    """What may follow some segments: these words, or a name; and the routes that end here, by their methods."""

    __slots__ = ("any", "routes", "words")

    def __init__(self) -> None:
        self.words: dict[str, _Node] = {}
        self.any: _Node | None = None
        self.routes: dict[str, Route] = {}

    def below(self, segment: str) -> _Node:
        """The node after that segment of a route's path, made where there is none."""
        if not is_name(segment):
            return self.words.setdefault(segment, _Node())
        if self.any is None:
            self.any = _Node()
        return self.any


class Grammar:
    """Finds routes. Where both a word and a name could stand, it is the word."""

    def __init__(self, routes: Iterable[Route]) -> None:
        self.routes = tuple(routes)
        self._root = _Node()
        for route in self.routes:
            node = self._root
            for segment in route.path.split("/"):
                node = node.below(segment)
            node.routes[route.method] = route
        # Most requests are for a path that there was just before.
        self._found = lru_cache(maxsize=PATHS_KEPT)(self._find)

    def find(self, method: str, path: str) -> Found | None:
        """The route of a request, if there is one. `path`: unquoted, without the query."""
        return self._found(method, path) if len(path) <= PATH_KEPT_MAX else self._find(method, path)

    def _find(self, method: str, path: str) -> Found | None:
        node, values = self._walk(path)
        route = None if node is None else node.routes.get(method)
        return None if route is None else Found(route, tuple(values))

    def methods(self, path: str) -> tuple[str, ...]:
        """The methods that the path has; none: there is no such path."""
        node, _ = self._walk(path)
        return () if node is None else tuple(node.routes)

    def _walk(self, path: str) -> tuple[_Node | None, list[str]]:
        node = self._root
        values: list[str] = []
        for segment in path.split("/"):
            following = node.words.get(segment)
            if following is None:
                following = node.any
                if following is None or not segment:
                    return None, values
                values.append(segment)
            node = following
        return node, values


GRAMMAR = Grammar(ALL)
"""Of a gateway."""
