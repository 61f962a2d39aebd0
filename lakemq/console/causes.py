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
    them. `brokers`: the names of those that have such letters."""

    group: str
    name: str
    is_class: bool
    letters: int
    oldest_ms: int
    newest_ms: int
    brokers: tuple[str, ...]

    @property
    def where(self) -> str:
        """A predicate that has these letters; empty: it takes more than their class."""
        return f"failure_class = '{self.name}'" if self.is_class and _PLAIN.fullmatch(self.name) else ""

    @property
    def query(self) -> str:
        """That of the page that lists them."""
        return urlencode({"cause": self.name} | ({"where": self.where} if self.where else {}))


class Causes:
    """Those of the letters that were looked at. `brokers`: their names, in the order in which a cause has them."""

    def __init__(self, brokers: Iterable[str]) -> None:
        self._places = {name: place for place, name in enumerate(brokers)}
        self._counted: dict[tuple[str, str], causes.Causes] = {}

    def take(self, broker: str, group: str, letters: Iterable[Mapping[str, Any]]) -> None:
        """Count these too."""
        counted = self._counted.setdefault((broker, group), causes.Causes())
        for each in letters:
            counted.count(each["failure_class"], each["failure_text"], each["failed_ms"])

    def all(self) -> list[Cause]:
        """Those of all brokers together, with most letters first."""
        found: dict[tuple[str, str], Cause] = {}
        for (broker, group), counted in sorted(self._counted.items(), key=lambda each: self._places[each[0][0]]):
            for each in counted.most():
                here = Cause(group, *each, (broker,))
                known = found.get((group, each.name))
                found[group, each.name] = here if known is None else _together(known, here)
        return sorted(found.values(), key=lambda each: (-each.letters, each.group, each.name))


def _together(some: Cause, more: Cause) -> Cause:
    return some._replace(
        is_class=some.is_class and more.is_class,
        letters=some.letters + more.letters,
        oldest_ms=min(some.oldest_ms, more.oldest_ms),
        newest_ms=max(some.newest_ms, more.newest_ms),
        brokers=(*some.brokers, *more.brokers),
    )
