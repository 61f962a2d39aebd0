"""Attempts are counted one by one, an acknowledged message does not come again, what is given back does, and
dead letters are those whose attempts are used up. A power cut may take an attempt, or how it ended, that nobody
had synced: then it comes again."""

from __future__ import annotations

from collections.abc import Iterator

from lakemq.testing.history.finding import Finding, Kind
from lakemq.testing.history.hand_outs import GroupMessage, HandOut, HandOuts
from lakemq.testing.history.operation import Operation
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
    """Attempts that a group gave back (`nack`, with their `reconsume_times`), or let run out before the last scan's
    `settled_ms`, and after which the message is neither among the group's retries nor its dead letters."""
    scan = sightings.last_scan
    if scan is None or "settled_ms" not in scan.request:
        return
    there = {(row.topic, row.payload, row.reconsume_times) for row in sightings.last_rows}
    dead = {(row.topic, row.payload) for row in sightings.last_rows}
    handed, cuts = HandOuts(sightings), PowerCuts(sightings)

    def is_there(group: str, payload: str, times: int) -> bool:
        return (RETRY + group, payload, times + 1) in there or (DEAD + group, payload) in dead

    for nack in sightings.history.done("nack"):
        request = nack.request
        if "reconsume_times" not in request or not nack.before(scan) or not cuts.is_promised(nack, scan.begun):
            continue
        for payload in request["payloads"]:
            if not is_there(request["group"], payload, request["reconsume_times"]):
                what = f"{payload} was given back by {request['group']} and never came again"
                yield Finding(Kind.RETRY_LOST, what, (nack.number, scan.number))
    for key, every in handed.of.items():
        last = every[-1]
        if last.until_ms is None or last.until_ms >= scan.request["settled_ms"] or handed.settled.get(key):
            continue
        if cuts.is_promised(last.operation, scan.begun) and not is_there(*key, last.row.reconsume_times):
            what = f"{key[1]} ran out for {key[0]} at {last.until_ms} and never came again"
            yield Finding(Kind.RETRY_LOST, what, (last.operation.number, scan.number))
