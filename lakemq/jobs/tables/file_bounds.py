"""The files of `messages` with what their statistics say of them, followed commit by commit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lakemq.jobs.tables.merged_add import stats_of
from lakemq.model.topic_step import Bounds
from lakemq.storage.lake.live_files import Action, LiveFiles


class FileBounds:
    """Of the table in a folder. Not for several threads at once."""

    def __init__(self, table: Path) -> None:
        """Raises as `LiveFiles`."""
        self._live = LiveFiles(table)
        self._known: dict[str, Bounds] = {}

    def now(self) -> list[Bounds]:
        """Of the last version. Raises as `LiveFiles`."""
        self._live.catch_up()
        added = self._live.added
        known = self._known
        self._known = {path: known.get(path) or bounds_of(path, add) for path, add in added.items()}
        return list(self._known.values())


def bounds_of(path: str, add: Action) -> Bounds:
    """What the action that added it says."""
    stats = stats_of(add)
    return Bounds(
        path,
        int(stats.get("numRecords") or 0),
        int(add["size"]),
        _between(stats, "position"),
        _between(stats, "topic"),
        _between(stats, "broker"),
    )


def _between(stats: dict[str, Any], column: str) -> Any:
    least, greatest = (stats.get(name, {}).get(column) for name in ("minValues", "maxValues"))
    return None if least is None or greatest is None else (least, greatest)
