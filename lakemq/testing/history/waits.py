"""Delays and transactions: nothing is seen before its time, and all that is due comes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from lakemq.testing.history.finding import Finding, Kind
from lakemq.testing.history.operation import NEVER, Operation
from lakemq.testing.history.power_cuts import PowerCuts
from lakemq.testing.history.sightings import Seen, Sightings
from lakemq.testing.history.stored import is_delayed

NOT_FOUND = "transaction_not_found"


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
    """Delayed messages and commits that were promised and are not in their topic, though the last
    scan says that all which was due before `settled_ms` (the broker's clock) must be there."""
    scan = sightings.last_scan
    if scan is None or "settled_ms" not in scan.request:
        return
    there = {(row.topic, row.payload) for row in sightings.last_rows}
    recalled = {operation.request["payload"] for operation in sightings.history.of("recall")}
    cuts = PowerCuts(sightings)
    for operation in sightings.history.done("produce"):
        request = operation.request
        if not is_delayed(request) or request["deliver_at_ms"] >= scan.request["settled_ms"]:
            continue
        if not operation.before(scan) or not cuts.is_promised(operation, scan.begun):
            continue
        for payload in request["payloads"]:
            if (request["topic"], payload) not in there and payload not in recalled:
                what = f"{payload} was due at {request['deliver_at_ms']} and never came"
                yield Finding(Kind.DELAY_LOST, what, (operation.number, scan.number))
    for commit in _resolutions(sightings, "commit"):
        request = commit.request
        if (request["topic"], request["payload"]) in there or not commit.before(scan):
            continue
        if cuts.is_promised(commit, scan.begun):
            what = f"{request['payload']} was committed and is not in {request['topic']}"
            yield Finding(Kind.LOST, what, (commit.number, scan.number))


def find_lost_halves(sightings: Sightings) -> Iterator[Finding]:
    """Halves that were promised, and that the broker did not know when they were resolved."""
    halves = {payload: half for half in sightings.history.done("half") for payload in half.request["payloads"]}
    cuts = PowerCuts(sightings)
    for resolve in sightings.history.of("resolve"):
        half = halves.get(resolve.request["payload"])
        if half is None or not half.before(resolve) or resolve.result.get("code") != NOT_FOUND:
            continue
        if cuts.is_promised(half, resolve.begun):
            what = f"the half {resolve.request['payload']} was not known any more when it was resolved"
            yield Finding(Kind.LOST, what, (half.number, resolve.number))


def _resolutions(sightings: Sightings, resolution: str) -> Iterator[Operation]:
    return (each for each in sightings.history.of("resolve") if each.request["resolution"] == resolution)


def find_early_halves(sightings: Sightings) -> Iterator[Finding]:
    """Halves that a reader of their topic saw before anybody had asked to commit them, or after a
    rollback had been acknowledged. A rollback that a power cut may have taken leaves room for a commit after it."""
    commits: dict[str, list[Operation]] = defaultdict(list)
    for commit in _resolutions(sightings, "commit"):
        if commit.outcome != "failed":
            commits[commit.request["payload"]].append(commit)
    rollbacks = {each.request["payload"]: each for each in _resolutions(sightings, "rollback") if each.ok}
    cuts = PowerCuts(sightings)
    for half in sightings.history.of("half"):
        for payload in half.request["payloads"]:
            rollback = rollbacks.get(payload)
            later = [] if rollback is None else [each for each in commits[payload] if rollback.before(each)]
            if rollback is not None and any(cuts.may_have_taken(rollback, each.begun) for each in later):
                rollback = None
            asked = min((each.begun for each in commits[payload]), default=NEVER)
            for seen in sightings.in_topic(payload, half.request["topic"]):
                if rollback is not None:
                    what = f"{payload} was rolled back and is in {half.request['topic']}"
                    numbers = half.number, rollback.number, seen.operation.number
                    yield Finding(Kind.SEEN_AFTER_ROLLBACK, what, numbers)
                elif seen.operation.ended < asked:
                    what = f"{payload} was seen in {half.request['topic']} before anybody committed it"
                    yield Finding(Kind.SEEN_BEFORE_COMMIT, what, (half.number, seen.operation.number))
