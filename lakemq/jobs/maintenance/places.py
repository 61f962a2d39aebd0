"""Where the messages are that an erasure is about: a table of Arrow, in the order of the logs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute

# Its functions are made as it is imported: no type checker sees them.
pc: Any = pyarrow.compute

IN_LIST_MAX = 1_000
"""So few ids or positions stand in a condition: Delta finds files by their statistics then, and it takes no shuffle."""

PLACES = pa.schema({"broker": pa.string(), "position": pa.int64(), "topic": pa.string()})


def united(places: pa.Table, more: pa.Table) -> pa.Table:
    """Those of both, each once."""
    both = pa.concat_tables([places, more.select(PLACES.names).cast(PLACES)])
    return both.group_by(PLACES.names).aggregate([]).sort_by([("broker", "ascending"), ("position", "ascending")])


def positions_of(places: pa.Table, column: str = "broker") -> dict[str, list[int]]:
    """The positions by broker, or by another column, in order."""
    groups = places.group_by(column, use_threads=False).aggregate([("position", "list")])
    found = dict(zip(groups[column].to_pylist(), groups["position_list"].to_pylist(), strict=True))
    return {name: found[name] for name in sorted(found)}


def count_by(places: pa.Table, column: str) -> dict[str, int]:
    """How many there are of each, by name."""
    groups = places.group_by(column).aggregate([("position", "count")])
    return dict(sorted(zip(groups[column].to_pylist(), groups["position_count"].to_pylist(), strict=True)))
