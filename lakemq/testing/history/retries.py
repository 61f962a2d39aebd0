"""Attempts are counted one by one, an acknowledged message does not come again, and dead letters are
those whose attempts are used up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain

from lakemq.testing.history.finding import Finding, Kind
from lakemq.testing.history.operation import Operation
from lakemq.testing.history.sightings import Seen, Sightings

DEAD = "%DLQ%"
GroupMessage = tuple[str, str]


def find_wrong_attempts(sightings: Sightings) -> Iterator[Finding]:
    """By group and message, from its `receive`, `ack` and `nack` operations and the scan's dead letters."""
    handed: dict[GroupMessage, list[Seen]] = defaultdict(list)
    for seen in sightings.seen:
        if seen.operation.kind == "receive" and seen.row.payload is not None:
            handed[seen.operation.request["group"], seen.row.payload].append(seen)
    acked: dict[GroupMessage, Operation] = {}
    for ack in sightings.history.done("ack"):
        for payload in ack.request["payloads"]:
            acked.setdefault((ack.request["group"], payload), ack)
    # An answer that never came may have handed out any message: nobody can tell which attempts it was.
    doubtful = {each.request["group"] for each in sightings.history.of("receive") if each.outcome == "unknown"}
    for key, every in handed.items():
        yield from _attempts(key, every, key[0] in doubtful)
        ack = acked.get(key)
        for seen in every:
            if ack is not None and ack.before(seen.operation):
                what = f"{key[1]} was handed out to {key[0]} after it had been acknowledged"
                yield Finding(Kind.WRONG_ATTEMPTS, what, (ack.number, seen.operation.number))
    yield from _dead_letters(sightings, handed, doubtful)


def _attempts(key: GroupMessage, every: list[Seen], doubtful: bool) -> Iterator[Finding]:
    counts: set[int] = set()
    for seen in sorted(every, key=lambda each: each.operation.ended):
        count = seen.row.reconsume_times
        if count in counts:
            what = f"{key[1]} was handed out to {key[0]} twice with reconsume_times {count}"
            numbers = tuple(each.operation.number for each in every if each.row.reconsume_times == count)
            yield Finding(Kind.WRONG_ATTEMPTS, what, numbers)
        elif count > 0 and count - 1 not in counts and not doubtful and not _overlaps(seen, every):
            what = f"{key[1]} was handed out to {key[0]} with reconsume_times {count}, and never with {count - 1}"
            yield Finding(Kind.WRONG_ATTEMPTS, what, (seen.operation.number,))
        counts.add(count)


def _overlaps(seen: Seen, every: list[Seen]) -> bool:
    """Whether the attempt before it was in an answer that came later, though it was given earlier."""
    wanted = seen.row.reconsume_times - 1
    return any(other.row.reconsume_times == wanted and other.operation.begun < seen.operation.ended for other in every)


def _dead_letters(
    sightings: Sightings, handed: dict[GroupMessage, list[Seen]], doubtful: set[str]
) -> Iterator[Finding]:
    most = {each.request["group"]: each.request["max_reconsume_times"] for each in sightings.history.of("receive")}
    straight = {
        (nack.request["group"], payload)
        for nack in chain(sightings.history.of("nack"))
        for payload in nack.request["payloads"]
        if nack.request.get("delay_level", 0) < 0
    }
    dead: dict[GroupMessage, Seen] = {}
    for seen in sightings.seen:
        if not seen.row.topic.startswith(DEAD) or seen.row.payload is None:
            continue
        key = seen.row.topic.removeprefix(DEAD), seen.row.payload
        first = dead.setdefault(key, seen)
        if first.row.position != seen.row.position:
            numbers = first.operation.number, seen.operation.number
            yield Finding(Kind.WRONG_DEAD_LETTERS, f"{key[1]} is twice in the dead letters of {key[0]}", numbers)
    for key, seen in dead.items():
        attempts = {each.row.reconsume_times for each in handed.get(key, ())}
        if (
            key[0] in most
            and key not in straight
            and key[0] not in doubtful
            and max(attempts, default=-1) < most[key[0]]
        ):
            what = f"{key[1]} is a dead letter of {key[0]} after {len(attempts)} of {most[key[0]] + 1} attempts"
            yield Finding(Kind.WRONG_DEAD_LETTERS, what, (seen.operation.number,))
