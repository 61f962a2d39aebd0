"""Why messages died: counted by cause. Pure."""

from __future__ import annotations

from typing import NamedTuple

from lakemq.model.failure import cause_of


class Cause(NamedTuple):
    """What letters died of. `name` empty: nobody said why. `is_class`: it is a class of error, of all of them.
    `oldest_ms`, `newest_ms`: when the first and the last of them died."""

    name: str
    is_class: bool
    letters: int
    oldest_ms: int
    newest_ms: int


class Causes:
    """Those of the letters that were counted."""

    def __init__(self) -> None:
        self._found: dict[str, Cause] = {}

    def count(self, failure_class: str | None, failure_text: str | None, failed_ms: int) -> None:
        """One letter more."""
        name = cause_of(failure_class, failure_text)
        is_class = name == failure_class
        known = self._found.get(name, Cause(name, is_class, 0, failed_ms, failed_ms))
        self._found[name] = Cause(
            name,
            known.is_class and is_class,
            known.letters + 1,
            min(known.oldest_ms, failed_ms),
            max(known.newest_ms, failed_ms),
        )

    def __len__(self) -> int:
        return len(self._found)

    def most(self) -> list[Cause]:
        """All, those with most letters first."""
        return sorted(self._found.values(), key=lambda each: (-each.letters, each.name))
