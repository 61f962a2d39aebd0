"""Why open dead letters died: by group and cause. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlencode

from lakemq.model import causes

CAUSES_SHOWN_MAX = 20
_PLAIN = re.compile(r"[A-Za-z0-9_.$:-]+")
"""Classes that a predicate can name as they are."""


class Cause(NamedTuple):
    """What letters of a group died of. `name` empty: nobody said why. `is_class`: it is a class of error, of all of
    them. `broker`: where they are."""

    group: str
    name: str
    is_class: bool
    letters: int
    oldest_ms: int
    newest_ms: int
    broker: str

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
        self._counted: dict[tuple[str, str], causes.Causes] = {}

    def take(self, broker: str, group: str, letters: Iterable[Mapping[str, Any]]) -> None:
        """Count these too."""
        counted = self._counted.setdefault((broker, group), causes.Causes())
        for each in letters:
            counted.count(each["failure_class"], each["failure_text"], each["failed_ms"])

    def __len__(self) -> int:
        return sum(map(len, self._counted.values()))

    def most(self) -> list[Cause]:
        """Those with most letters first, as many as a page shows."""
        found = [
            Cause(group, *each, broker) for (broker, group), counted in self._counted.items() for each in counted.most()
        ]
        found.sort(key=lambda each: (-each.letters, each.group, each.name, each.broker))
        return found[:CAUSES_SHOWN_MAX]
