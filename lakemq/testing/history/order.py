"""Order within a queue and a key, and reads without silent gaps."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from lakemq.testing.history.finding import Finding, Kind
from lakemq.testing.history.operation import Operation, Row
from lakemq.testing.history.sightings import Sightings
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


def find_gaps(sightings: Sightings) -> Iterator[Finding]:
    """A pull or a scan says that it has all from `begin` to `end`: what is not among its rows is named in
    `holes`, ranges `[begin, end)`, or something was skipped in silence."""
    for read in sightings.history.done("pull", "scan"):
        if read.request.get("filtered"):
            continue
        result: dict[str, Any] = read.result
        numbers = [row.queue_offset if read.kind == "pull" else row.position for row in read.rows]
        begin: int = result["begin"] if "begin" in result else read.request["begin"]
        end: int = result["end"]
        missing = set(range(begin, end)).difference(numbers)
        for first, after in result.get("holes", ()):
            missing.difference_update(range(first, after))
        if missing:
            what = f"{read.kind} from {begin} to {end} lacks {_ranges(sorted(missing))} and does not say so"
            yield Finding(Kind.SILENT_GAP, what, (read.number,))


def _ranges(numbers: list[int]) -> str:
    shown: list[str] = []
    first = last = numbers[0]
    for number in [*numbers[1:], None]:
        if number is None or number != last + 1:
            shown.append(str(first) if first == last else f"{first}–{last}")
            first = number if number is not None else first
        last = number if number is not None else last
    return ", ".join(shown[:5]) + (", …" if len(shown) > 5 else "")
