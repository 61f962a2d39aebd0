"""Whose turn it is to write files of a table again: a merge's, or a statement's that deletes or changes rows.

Delta lets one of two win that replace the same file, and the other has worked for nothing: a deletion of minutes
would lose against merges of seconds, time after time.
"""

from __future__ import annotations

from pathlib import Path
from threading import Lock

KEEPING = Lock()
"""Held by who brings messages into topics' own tables, from its look at `messages` to its commit, and by who deletes or
changes rows of both: else rows would come back that were just deleted."""

_TURNS: dict[Path, Lock] = {}
_TURNS_LOCK = Lock()


def turn_of(table: Path) -> Lock:
    """Held by who replaces files of the table at that path, from its look at the table to its commit. All who write a
    lake are in the process that holds its lock."""
    with _TURNS_LOCK:
        return _TURNS.setdefault(table.absolute(), Lock())
