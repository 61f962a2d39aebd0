"""What Delta's log says of a merged file, and of those that it replaces."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from lakemq.storage.lake.live_files import Action

TIER = "lakemq.tier"
"""The tag of a file that was merged, and so is in the table's order: its tier (`model.merging`)."""
_CLUSTERED = "ZCUBE_ID"
"""A tag of Delta's OPTIMIZE."""


def tier_of(add: Action) -> int:
    """0 of a file that no merge has made."""
    text = (add.get("tags") or {}).get(TIER, "")
    return int(text) if text.isdigit() else 0


def is_ordered(add: Action) -> bool:
    """Whether its rows are in the table's order."""
    return tier_of(add) > 0


def may_be_merged(add: Action) -> bool:
    """Not where some rows of the file count as deleted, nor what somebody has clustered with OPTIMIZE."""
    return add.get("deletionVector") is None and _CLUSTERED not in (add.get("tags") or {})


def order_of(add: Action, column: str) -> str:
    """Where the file is among others: by the least time in it, of which texts of one form have the order."""
    least = stats_of(add).get("minValues", {}).get(column)
    return f"{add['modificationTime']:020}" if least is None else str(least)


def stats_of(add: Action) -> dict[str, Any]:
    """Empty where there are none."""
    text = add.get("stats")
    return json.loads(text) if text else {}


def rows_of(add: Action) -> int | None:
    """As the log says; None: it doesn't."""
    return stats_of(add).get("numRecords")


def add_of(path: str, size: int, rows: int, now_ms: int, tier: int, replaced: Sequence[Action]) -> Action:
    """The action `add` of the file in place of those. Bounds of a column are those of all their bounds together, and
    unknown where one of them has none."""
    stats = _merged_stats([stats_of(add) for add in replaced], rows)
    return {
        "path": quote(path, safe="/=-._~"),
        "partitionValues": replaced[0].get("partitionValues") or {},
        "size": size,
        "modificationTime": now_ms,
        "dataChange": False,
        "stats": json.dumps(stats, separators=(",", ":"), ensure_ascii=False),
        "tags": {TIER: str(tier)},
    }


def remove_of(add: Action, now_ms: int) -> Action:
    """The action `remove` of a file."""
    kept = {name: add[name] for name in ("path", "size", "tags") if add.get(name)}
    values = add.get("partitionValues") or {}
    said = {"deletionTimestamp": now_ms, "dataChange": False, "extendedFileMetadata": True, "partitionValues": values}
    return kept | said


def _merged_stats(all_stats: Sequence[dict[str, Any]], rows: int) -> dict[str, Any]:
    nulls = [stats.get("nullCount", {}) for stats in all_stats]
    merged: dict[str, Any] = {"numRecords": rows}
    for name, choose in (("minValues", min), ("maxValues", max)):
        bounds = [stats.get(name, {}) for stats in all_stats]
        merged[name] = {}
        for column in dict.fromkeys(column for each in bounds for column in each):
            # A file of which a column is null throughout has no bounds of it, and needs none.
            known = [
                each.get(column)
                for each, stats, null in zip(bounds, all_stats, nulls, strict=True)
                if column in each or null.get(column) is None or null[column] != stats.get("numRecords")
            ]
            if known and None not in known:
                merged[name][column] = choose(known)
    columns = dict.fromkeys(column for each in nulls for column in each)
    merged["nullCount"] = {
        column: sum(each[column] for each in nulls) for column in columns if all(column in each for each in nulls)
    }
    return merged
