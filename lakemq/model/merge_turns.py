"""Which of many tables has its files merged next: one at a time, and only those that got enough new files.

To look at each of them after each batch would cost more than the merges do. So a table is looked at when it is first
known, as an earlier run may have left files, and then after every `files` files that were added to it.
"""

from __future__ import annotations

NAMES_MAX = 1000
"""So many tables are remembered; one that was forgotten counts as new."""


class MergeTurns:
    """Times are of one clock, in seconds. Not for several threads at once."""

    def __init__(self, files: int, pause_s: float) -> None:
        """`pause_s`: at least so long between two merges."""
        self._files, self._pause_s = files, pause_s
        self._new: dict[str, int] = {}
        self._due: dict[str, None] = {}
        self._again_s = 0.0

    def written(self, name: str) -> bool:
        """A file was added to the table, or it is first known; whether it is due."""
        new = self._new[name] = self._new.get(name, self._files) + 1
        if new >= self._files:
            self._new[name] = 0
            self._due[name] = None
        if len(self._new) > NAMES_MAX:
            del self._new[next(iter(self._new))]
        return name in self._due

    def wait_s(self, now_s: float) -> float | None:
        """How long there is nothing to look at; None: until a table is due."""
        return max(self._again_s - now_s, 0.0) if self._due else None

    def take(self, now_s: float) -> str | None:
        """The table to look at now, which isn't due any more; None: none."""
        if self.wait_s(now_s) != 0.0:
            return None
        name = next(iter(self._due))
        del self._due[name]
        return name

    def merged(self, name: str, began_s: float, now_s: float) -> None:
        """Files of it were merged, and there may be more, or enough of the next tier: it is due again, after the
        others."""
        self._due[name] = None
        self.rest(began_s, now_s)

    def rest(self, began_s: float, now_s: float) -> None:
        """After a merge, one that failed too: a pause as long as it took, so a backlog takes at most half of the
        time."""
        self._again_s = now_s + max(self._pause_s, now_s - began_s)
