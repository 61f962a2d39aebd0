"""What was acknowledged is in the log for good."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from lakemq.testing.history.finding import Finding, Kind
from lakemq.testing.history.operation import Operation, Row
from lakemq.testing.history.power_cuts import PowerCuts
from lakemq.testing.history.sightings import Sent, Sightings
from lakemq.testing.history.stored import is_delayed


def find_lost(sightings: Sightings) -> Iterator[Finding]:
    """Messages that were promised and are neither in the last scan nor in the lake, each with where it stood.

    `ack` none promises nothing. `async` promises to outlive the process; a power cut that comes after it
    was asked for excuses it, unless somebody synced after it and was answered before the cut.
    """
    scan = sightings.last_scan
    if scan is None:
        return
    rows = sightings.last_rows
    there = {row.payload for row in rows}
    positions = sorted(row.position for row in rows)
    cuts = PowerCuts(sightings)
    for payload, every in sightings.sent.items():
        if payload in there:
            continue
        sent = next(
            (each for each in every if _is_due(each, scan) and cuts.is_promised(each.operation, scan.begun)), None
        )
        if sent is None:
            continue
        yield Finding(Kind.LOST, _where(sent.row, payload, positions), (sent.operation.number, scan.number))


def _is_due(sent: Sent, scan: Operation) -> bool:
    """Whether it was sent right to its topic, and answered before the scan."""
    operation = sent.operation
    return operation.kind == "produce" and not is_delayed(operation.request) and operation.before(scan)


def _where(row: Row | None, payload: str, positions: list[int]) -> str:
    if row is None:
        return f"{payload} was acknowledged and is not in the log"
    at = bisect_left(positions, row.position)
    if not positions:
        sequence = "the log is empty"
    elif at == 0:
        sequence = f"the log begins after it, with {positions[0]}"
    elif at == len(positions):
        sequence = f"the log ends before it, with {positions[-1]}"
    else:
        sequence = f"the log goes from {positions[at - 1]} to {positions[at]}"
    return f"{payload}, promised at position {row.position} ({row.topic}/{row.queue_id}): {sequence}"
