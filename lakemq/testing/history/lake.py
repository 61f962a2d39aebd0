"""The lake has each row of the log once, as it is there."""

from __future__ import annotations

from collections.abc import Iterator

from lakemq.testing.history.finding import Finding, Kind
from lakemq.testing.history.operation import Row
from lakemq.testing.history.sightings import Sightings


def find_lake_differences(sightings: Sightings) -> Iterator[Finding]:
    """`lake` returns the rows of the table `messages` and `end`: it has every position below. Rows of the
    last scan are looked for in it."""
    lake = sightings.last_lake
    if lake is None:
        return
    scan = sightings.last_scan
    numbers = (lake.number,) if scan is None else (scan.number, lake.number)
    there: dict[int, Row] = {}
    for row in lake.rows:
        if row.position in there:
            yield Finding(Kind.LAKE_DOUBLE, f"position {row.position} is twice in the lake", numbers)
        there[row.position] = row
    for row in [] if scan is None else scan.rows:
        if row.position >= lake.result["end"]:
            continue
        found = there.get(row.position)
        if found is None:
            yield Finding(Kind.LAKE_MISSING, f"position {row.position} ({row.payload}) is not in the lake", numbers)
        elif found[:5] != row[:5]:
            what = f"position {row.position} is {row.payload} in the log and {found.payload} in the lake"
            yield Finding(Kind.LAKE_DIFFERS, what, numbers)
