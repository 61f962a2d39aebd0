"""Attempts are counted one by one, an acknowledged message does not come again, what is given back does, and
dead letters are those whose attempts are used up. A power cut may take an attempt, or how it ended, that nobody
had synced: then it comes again."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from lakemq.testing.history.finding import Finding, Kind
from lakemq.testing.history.hand_outs import GroupMessage, HandOut, HandOuts
from lakemq.testing.history.operation import NEVER, Operation
from lakemq.testing.history.power_cuts import PowerCuts
from lakemq.testing.history.sightings import Seen, Sightings

DEAD = "%DLQ%"
RETRY = "%RETRY%"


def find_wrong_attempts(sightings: Sightings) -> Iterator[Finding]:
    """By group and message, from its `receive`, `ack` and `nack` operations and the scan's dead letters."""
    handed, cuts = HandOuts(sightings), PowerCuts(sightings)
    acks: dict[GroupMessage, list[Operation]] = {}
    for ack in sightings.history.done("ack"):
        for payload in ack.request["payloads"]:
            acks.setdefault((ack.request["group"], payload), []).append(ack)
    for key, every in handed.of.items():
        yield from _repeated(key, every, cuts)
        yield from _skipped(key, every, handed)
        for each in every:
            came = each.operation
            before = (ack for ack in acks.get(key, ()) if ack.before(came) and not cuts.may_have_taken(ack, came.begun))
            if (ack := next(before, None)) is not None:
                what = f"{key[1]} was handed out to {key[0]} after it had been acknowledged"
                yield Finding(Kind.WRONG_ATTEMPTS, what, (ack.number, came.number))
    yield from _dead_letters(sightings, handed, cuts)


def _repeated(key: GroupMessage, every: list[HandOut], cuts: PowerCuts) -> Iterator[Finding]:
    last: dict[int, Operation] = {}
    for each in every:
        count = each.row.reconsume_times
        before = last.get(count)
        if before is not None and not cuts.may_have_taken(before, each.operation.begun):
            what = f"{key[1]} was handed out to {key[0]} twice with reconsume_times {count}"
            yield Finding(Kind.WRONG_ATTEMPTS, what, (before.number, each.operation.number))
        last[count] = each.operation


def _skipped(key: GroupMessage, every: list[HandOut], handed: HandOuts) -> Iterator[Finding]:
    for count in sorted({each.row.reconsume_times for each in every}):
        first = next(each.operation for each in every if each.row.reconsume_times == count)
        # The answer with the attempt before it may have come later, though it was given earlier.
        lacking = handed.lacking(key, count, first.ended)
        if lacking:
            what = f"{key[1]} was handed out to {key[0]} with reconsume_times {count}, and never with {lacking[-1]}"
            yield Finding(Kind.WRONG_ATTEMPTS, what, (first.number,))
            return


def _dead_letters(sightings: Sightings, handed: HandOuts, cuts: PowerCuts) -> Iterator[Finding]:
    straight = {
        (nack.request["group"], payload)
        for nack in sightings.history.of("nack")
        for payload in nack.request["payloads"]
        if nack.request.get("delay_level", 0) < 0
    }
    dead: dict[GroupMessage, dict[int, list[Seen]]] = {}
    for seen in sightings.seen:
        if seen.row.topic.startswith(DEAD) and seen.row.payload is not None:
            key = seen.row.topic.removeprefix(DEAD), seen.row.payload
            dead.setdefault(key, {}).setdefault(seen.row.position, []).append(seen)
    for key, places in dead.items():
        first, *others = places.values()
        for other in others:
            if cuts.are_both_there(first, other):
                numbers = first[0].operation.number, other[0].operation.number
                yield Finding(Kind.WRONG_DEAD_LETTERS, f"{key[1]} is twice in the dead letters of {key[0]}", numbers)
    for key, places in dead.items():
        if key[0] not in handed.most or key in straight:
            continue
        attempts = handed.most[key[0]] + 1
        seen = next(iter(places.values()))[0]
        lacking = handed.lacking(key, attempts, seen.operation.ended)
        if lacking:
            what = f"{key[1]} is a dead letter of {key[0]} after {attempts - len(lacking)} of {attempts} attempts"
            yield Finding(Kind.WRONG_DEAD_LETTERS, what, (seen.operation.number,))


def find_lost_retries(sightings: Sightings) -> Iterator[Finding]:
    """Attempts that a group gave back (`nack`, with their `reconsume_times` and the `due_ms` of their retries) or let
    run out, before the last scan's `settled_ms`, and after which the message is neither among the group's retries
    nor its dead letters. All these times are of the broker's clock."""
    scan = sightings.last_scan
    if scan is None or "settled_ms" not in scan.request:
        return
    rows = sightings.last_rows
    there = {(row.topic, row.payload, row.reconsume_times) for row in rows} | {(row.topic, row.payload) for row in rows}
    settled_ms: int = scan.request["settled_ms"]
    ended = chain(_given_back(sightings, settled_ms), _run_out(sightings, settled_ms))
    cuts = PowerCuts(sightings)
    for group, payload, times, operation in ended:
        if (RETRY + group, payload, times + 1) in there or (DEAD + group, payload) in there:
            continue
        if operation.before(scan) and cuts.is_promised(operation, scan.begun):
            how = "was given back by" if operation.kind == "nack" else "ran out for"
            what = f"{payload} {how} {group} after attempt {times}, and never came again"
            yield Finding(Kind.RETRY_LOST, what, (operation.number, scan.number))


Ended = tuple[str, str, int, Operation]
"""Group, payload and `reconsume_times` of an attempt, and the operation that ended it, or gave it."""


def _given_back(sightings: Sightings, settled_ms: int) -> Iterator[Ended]:
    for nack in sightings.history.done("nack"):
        request = nack.request
        if request.get("due_ms", NEVER) < settled_ms:
            for payload in request["payloads"]:
                yield request["group"], payload, request["reconsume_times"], nack


def _run_out(sightings: Sightings, settled_ms: int) -> Iterator[Ended]:
    handed = HandOuts(sightings)
    for key, every in handed.of.items():
        last = every[-1]
        if last.until_ms is not None and last.until_ms < settled_ms and not handed.settled.get(key):
            yield *key, last.row.reconsume_times, last.operation
