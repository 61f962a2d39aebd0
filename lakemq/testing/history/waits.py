"""Delays and transactions: nothing is seen before its time, and all that is due comes."""

from __future__ import annotations

from collections.abc import Iterator

from lakemq.testing.history.finding import Finding, Kind
from lakemq.testing.history.operation import NEVER, Operation
from lakemq.testing.history.sightings import Seen, Sightings
from lakemq.testing.history.stored import is_delayed


def find_early(sightings: Sightings) -> Iterator[Finding]:
    """Delayed messages that were stored in their topic before they were due, to the millisecond."""
    for operation, payload, seen in _delayed(sightings):
        due_ms: int = operation.request["deliver_at_ms"]
        stored_ms = seen.row.store_time_ms
        if stored_ms is not None and stored_ms < due_ms:
            what = f"{payload} was delivered {due_ms - stored_ms} ms before it was due"
            yield Finding(Kind.EARLY, what, (operation.number, seen.operation.number))


def _delayed(sightings: Sightings) -> Iterator[tuple[Operation, str, Seen]]:
    for operation in sightings.history.of("produce"):
        if is_delayed(operation.request):
            for payload in operation.request["payloads"]:
                for seen in sightings.in_topic(payload, operation.request["topic"]):
                    yield operation, payload, seen


def find_lost_delays(sightings: Sightings) -> Iterator[Finding]:
    """Delayed messages and commits that were acknowledged and are not in their topic, though the last
    scan says that all which was due before `settled_ms` (the broker's clock) must be there."""
    scan = sightings.last_scan
    if scan is None or "settled_ms" not in scan.request:
        return
    there = {(row.topic, row.payload) for row in scan.rows}
    recalled = {operation.request["payload"] for operation in sightings.history.of("recall")}
    for operation in sightings.history.done("produce"):
        request = operation.request
        if not is_delayed(request) or request["deliver_at_ms"] >= scan.request["settled_ms"]:
            continue
        if not operation.before(scan) or request["ack"] == "none":
            continue
        for payload in request["payloads"]:
            if (request["topic"], payload) not in there and payload not in recalled:
                what = f"{payload} was due at {request['deliver_at_ms']} and never came"
                yield Finding(Kind.DELAY_LOST, what, (operation.number, scan.number))
    for commit in _resolutions(sightings, "commit"):
        request = commit.request
        if commit.ok and commit.before(scan) and (request["topic"], request["payload"]) not in there:
            what = f"{request['payload']} was committed and is not in {request['topic']}"
            yield Finding(Kind.LOST, what, (commit.number, scan.number))


def _resolutions(sightings: Sightings, resolution: str) -> Iterator[Operation]:
    return (each for each in sightings.history.of("resolve") if each.request["resolution"] == resolution)


def find_early_halves(sightings: Sightings) -> Iterator[Finding]:
    """Halves that a reader of their topic saw before anybody had asked to commit them, or after a
    rollback had been acknowledged."""
    commits: dict[str, int] = {}
    for commit in _resolutions(sightings, "commit"):
        if commit.outcome != "failed":
            payload = commit.request["payload"]
            commits[payload] = min(commits.get(payload, NEVER), commit.begun)
    rollbacks = {each.request["payload"]: each for each in _resolutions(sightings, "rollback") if each.ok}
    for half in sightings.history.of("half"):
        for payload in half.request["payloads"]:
            for seen in sightings.in_topic(payload, half.request["topic"]):
                if payload in rollbacks:
                    what = f"{payload} was rolled back and is in {half.request['topic']}"
                    numbers = half.number, rollbacks[payload].number, seen.operation.number
                    yield Finding(Kind.SEEN_AFTER_ROLLBACK, what, numbers)
                elif seen.operation.ended < commits.get(payload, NEVER):
                    what = f"{payload} was seen in {half.request['topic']} before anybody committed it"
                    yield Finding(Kind.SEEN_BEFORE_COMMIT, what, (half.number, seen.operation.number))
