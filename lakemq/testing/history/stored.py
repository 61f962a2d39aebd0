"""What is stored was sent, whole, once, and each place and id means one message for good."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from lakemq.testing.history.finding import Finding, Kind
from lakemq.testing.history.sightings import Seen, Sightings


def find_false_rows(sightings: Sightings) -> Iterator[Finding]:
    """Rows that nobody sent, and rows whose bytes are not what anybody sent."""
    for operation, row in sightings.seen:
        where = f"position {row.position}, offset {row.queue_offset} of {row.topic}/{row.queue_id}"
        if row.payload is None:
            yield Finding(Kind.CORRUPT, f"{where} holds other bytes than were sent", (operation.number,))
        elif row.payload not in sightings.sent:
            yield Finding(Kind.INVENTED, f"{where} holds {row.payload}, which nobody sent", (operation.number,))
        elif sightings.sent[row.payload][0].operation.begun > operation.ended:
            yield Finding(Kind.INVENTED, f"{where} holds {row.payload} before it was sent", (operation.number,))


def find_two_meanings(sightings: Sightings) -> Iterator[Finding]:
    """Positions, queue offsets and ids that one reader was told mean this, another that."""
    meanings: dict[str, dict[str, Seen]] = defaultdict(dict)
    for seen in sightings.places():
        row = seen.row
        if row.payload is None:
            continue
        place = f"offset {row.queue_offset} of {row.topic}/{row.queue_id}"
        yield from _mean(meanings, Kind.TWO_VALUES, f"position {row.position}", row.payload, seen)
        yield from _mean(meanings, Kind.TWO_VALUES, place, row.payload, seen)
        if row.message_id is not None:
            yield from _mean(meanings, Kind.TWO_MEANINGS, f"id {row.message_id}", row.payload, seen)
    transactions: dict[str, tuple[str, int]] = {}
    for half in sightings.history.done("half"):
        for transaction_id, payload in zip(half.result["transaction_ids"], half.request["payloads"], strict=True):
            other, number = transactions.setdefault(transaction_id, (payload, half.number))
            if other != payload:
                what = f"transaction {transaction_id} is {other} and {payload}"
                yield Finding(Kind.TWO_MEANINGS, what, (number, half.number))


def _mean(meanings: dict[str, dict[str, Seen]], kind: Kind, name: str, payload: str, seen: Seen) -> Iterator[Finding]:
    known = meanings[name]
    if known and payload not in known:
        first, other = next(iter(known.items()))
        numbers = other.operation.number, seen.operation.number
        yield Finding(kind, f"{name} is {first}, and {payload}", numbers)
    known.setdefault(payload, seen)


def find_double(sightings: Sightings) -> Iterator[Finding]:
    """A message that is in its topic at two places."""
    for payload, every in sightings.sent.items():
        topics = {sent.operation.request["topic"] for sent in every}
        places: dict[int, Seen] = {}
        for sent in every:
            if sent.row is not None and sent.operation.kind == "produce" and not is_delayed(sent.operation.request):
                places.setdefault(sent.row.position, Seen(sent.operation, sent.row))
        for seen in sightings.of_payload.get(payload, ()):
            if seen.row.topic in topics:
                places.setdefault(seen.row.position, seen)
        if len(places) > 1:
            numbers = tuple(dict.fromkeys(seen.operation.number for seen in places.values()))
            at = ", ".join(map(str, sorted(places)))
            yield Finding(Kind.STORED_TWICE, f"{payload} is at positions {at}", numbers)


def is_delayed(request: dict[str, object]) -> bool:
    """Whether the message goes to its topic later: what its answer names is where it waits."""
    return request.get("deliver_at_ms") is not None
