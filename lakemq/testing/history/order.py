"""Order within a queue and a key, and reads without silent gaps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from lakemq.testing.history.finding import Finding, Kind
from lakemq.testing.history.operation import Operation, Row
from lakemq.testing.history.sightings import Seen, Sightings
from lakemq.testing.history.stored import is_delayed


def find_disorder(sightings: Sightings) -> Iterator[Finding]:
    """What was acknowledged before another was sent stands before it; a key has one queue."""
    queues: dict[tuple[str, int], list[tuple[Operation, int, int]]] = defaultdict(list)
    keys: dict[tuple[str, str], tuple[Operation, int]] = {}
    for operation in sightings.history.done("produce"):
        if is_delayed(operation.request) or not operation.rows:
            continue
        of_queue: dict[tuple[str, int], list[int]] = defaultdict(list)
        for row in operation.rows:
            of_queue[row.topic, row.queue_id].append(row.queue_offset)
        for queue, offsets in of_queue.items():
            if offsets != sorted(offsets):
                yield Finding(
                    Kind.DISORDER, f"a request's messages are not in its order in {queue}", (operation.number,)
                )
            queues[queue].append((operation, min(offsets), max(offsets)))
        yield from _one_queue(keys, operation)
    for queue, entries in queues.items():
        yield from _real_time(queue, entries)
    for read in sightings.history.done("pull", "scan"):
        yield from _ascending(read)
    for read in sightings.history.done("pull"):
        yield from _within(read)
    yield from _positions(sightings)


def _one_queue(keys: dict[tuple[str, str], tuple[Operation, int]], operation: Operation) -> Iterator[Finding]:
    key = operation.request.get("ordering_key")
    if key is None:
        return
    for row in operation.rows:
        first, queue_id = keys.setdefault((row.topic, key), (operation, row.queue_id))
        if queue_id != row.queue_id:
            what = f"ordering key {key} of {row.topic} is in queue {queue_id} and in {row.queue_id}"
            yield Finding(Kind.DISORDER, what, (first.number, operation.number))


def _real_time(queue: tuple[str, int], entries: list[tuple[Operation, int, int]]) -> Iterator[Finding]:
    by_end = sorted(entries, key=lambda entry: entry[0].ended)
    highest: tuple[int, Operation] | None = None
    at = 0
    for operation, lowest, _ in sorted(entries, key=lambda entry: entry[0].begun):
        while at < len(by_end) and by_end[at][0].before(operation):
            ended, _, top = by_end[at]
            if highest is None or top > highest[0]:
                highest = top, ended
            at += 1
        if highest is not None and highest[0] > lowest:
            what = f"{queue[0]}/{queue[1]}: offset {lowest} was sent after {highest[0]} had been acknowledged"
            yield Finding(Kind.DISORDER, what, (highest[1].number, operation.number))


def _ascending(read: Operation) -> Iterator[Finding]:
    last: dict[tuple[str, int], Row] = {}
    for row in read.rows:
        before = last.get((row.topic, row.queue_id))
        if before is not None and not (before.queue_offset < row.queue_offset and before.position < row.position):
            what = f"{row.topic}/{row.queue_id}: offset {row.queue_offset} at position {row.position} comes after"
            what += f" offset {before.queue_offset} at position {before.position}"
            yield Finding(Kind.DISORDER, what, (read.number,))
        last[row.topic, row.queue_id] = row


def _within(read: Operation) -> Iterator[Finding]:
    """A puller goes on where the answer before said, so what is outside comes twice or out of turn."""
    begin, end = read.request["begin"], read.result["end"]
    outside = [row.queue_offset for row in read.rows if not begin <= row.queue_offset < end]
    if outside:
        what = f"a pull from {begin} to {end} was answered with offset {outside[0]}"
        yield Finding(Kind.DISORDER, what, (read.number,))


def _positions(sightings: Sightings) -> Iterator[Finding]:
    """A queue's messages stand in the log in the queue's order, whoever was told of them, over all answers."""
    queues: dict[tuple[str, int], dict[int, Seen]] = defaultdict(dict)
    for seen in sightings.places():
        queues[seen.row.topic, seen.row.queue_id].setdefault(seen.row.queue_offset, seen)
    for (topic, queue_id), places in queues.items():
        for (_, one), (_, other) in pairwise(sorted(places.items())):
            # Within one answer it is found there.
            if one.row.position > other.row.position and one.operation is not other.operation:
                what = f"{topic}/{queue_id}: offset {other.row.queue_offset} is at position {other.row.position}, and"
                what += f" offset {one.row.queue_offset} at {one.row.position}"
                yield Finding(Kind.DISORDER, what, (one.operation.number, other.operation.number))


def find_gaps(sightings: Sightings) -> Iterator[Finding]:
    """A pull or a scan says that it has all from `begin` to `end`. What is none of its rows is named:
    `others`, which were not asked for, and `holes`, whose messages are gone for good. Everything else that
    is lacking was skipped in silence. All are ranges `[begin, end)`, of offsets or of positions.
    """
    for read in sightings.history.done("pull", "scan"):
        if read.request.get("filtered"):
            continue
        result: dict[str, Any] = read.result
        begin: int = result["begin"] if "begin" in result else read.request["begin"]
        is_pull = read.kind == "pull"
        there = [
            (row.queue_offset, row.queue_offset + 1) if is_pull else (row.position, row.position + 1)
            for row in read.rows
        ]
        there += [(first, after) for name in ("holes", "others") for first, after in result.get(name, ())]
        missing = list(_lacking(begin, result["end"], there))
        if missing:
            spans = ", ".join(
                f"{first}–{after - 1}" if after - first > 1 else str(first) for first, after in missing[:5]
            )
            what = f"{read.kind} from {begin} to {result['end']} lacks {spans} and does not say so"
            yield Finding(Kind.SILENT_GAP, what, (read.number,))


def _lacking(begin: int, end: int, there: list[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    at = begin
    for first, after in sorted(there):
        if first > at:
            yield at, min(first, end)
        at = max(at, after)
        if at >= end:
            return
    if at < end:
        yield at, end
