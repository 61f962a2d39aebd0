"""Why open dead letters died: counted by group and cause. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from lakemq.model.failure import cause_of

CAUSES_SHOWN_MAX = 20
_PLAIN = re.compile(r"[A-Za-z0-9_.$:-]+")
"""Classes that a predicate can name as they are."""


class Cause(NamedTuple):
    """What letters of a group died of. `name` empty: nobody said why. `is_class`: it is a class of error, of all of
    them."""

    group: str
    name: str
    is_class: bool
    letters: int
    oldest_ms: int
    newest_ms: int

    @property
    def where(self) -> str:
        """A predicate that has these letters; empty: it takes more than their class."""
        return f"failure_class = '{self.name}'" if self.is_class and _PLAIN.fullmatch(self.name) else ""

    @property
    def query(self) -> str:
        """That of the page that lists them."""
        return urlencode({"cause": self.name} | ({"where": self.where} if self.where else {}))


class Causes:
    """Those of the letters that were looked at."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], Cause] = {}

    def take(self, group: str, letters: Iterable[Mapping[str, Any]]) -> None:
        """Count these too."""
        for each in letters:
            name, at_ms = cause_of(each["failure_class"], each["failure_text"]), each["failed_ms"]
            is_class = name == each["failure_class"]
            known = self._found.get((group, name), Cause(group, name, is_class, 0, at_ms, at_ms))
            self._found[group, name] = known._replace(
                is_class=known.is_class and is_class,
                letters=known.letters + 1,
                oldest_ms=min(known.oldest_ms, at_ms),
                newest_ms=max(known.newest_ms, at_ms),
            )

    def __len__(self) -> int:
        return len(self._found)

    def most(self) -> list[Cause]:
        """Those with most letters first, as many as a page shows."""
        return sorted(self._found.values(), key=lambda each: (-each.letters, each.group, each.name))[:CAUSES_SHOWN_MAX]
