"""What is stored was sent, whole, once, and each place and id means one message for good."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import chain, combinations

from lakemq.testing.history.finding import Finding, Kind
from lakemq.testing.history.power_cuts import PowerCuts
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
    told: dict[str, tuple[str, int]] = {}
    for name, meaning, number in chain(_ids_of_rows(sightings), _ids_of_answers(sightings)):
        first, other = told.setdefault(name, (meaning, number))
        if first != meaning:
            yield Finding(Kind.TWO_MEANINGS, f"{name} is {first}, and {meaning}", (other, number))


def _ids_of_rows(sightings: Sightings) -> Iterator[tuple[str, str, int]]:
    for operation, row in sightings.places():
        if row.payload is not None and row.message_id is not None:
            yield f"id {row.message_id}", row.payload, operation.number


def _ids_of_answers(sightings: Sightings) -> Iterator[tuple[str, str, int]]:
    """Ids of messages that wait, of transactions, of receipts; a receipt is of one attempt of one group."""
    for operation in sightings.history.done("produce", "half", "receive"):
        for name, field in (("id", "message_ids"), ("transaction", "transaction_ids")):
            ids = operation.result.get(field, ())
            for each, payload in zip(ids, operation.request["payloads"] if ids else (), strict=True):
                yield f"{name} {each}", payload, operation.number
        receipts = operation.result.get("receipts", ())
        for each, row in zip(receipts, operation.rows if receipts else (), strict=True):
            attempt = f"{row.payload} for {operation.request['group']}, reconsume_times {row.reconsume_times}"
            yield f"receipt {each}", attempt, operation.number


def _mean(meanings: dict[str, dict[str, Seen]], kind: Kind, name: str, payload: str, seen: Seen) -> Iterator[Finding]:
    known = meanings[name]
    if known and payload not in known:
        first, other = next(iter(known.items()))
        numbers = other.operation.number, seen.operation.number
        yield Finding(kind, f"{name} is {first}, and {payload}", numbers)
    known.setdefault(payload, seen)


def find_double(sightings: Sightings) -> Iterator[Finding]:
    """A message that is in its topic at two places. Where a power cut may have taken it from the one, it may
    come again at another: a delay, a commit, a request that was sent again."""
    cuts = PowerCuts(sightings)
    for payload, every in sightings.sent.items():
        topics = {sent.operation.request["topic"] for sent in every}
        places: dict[int, list[Seen]] = {}
        for sent in every:
            if sent.row is not None and sent.operation.kind == "produce" and not is_delayed(sent.operation.request):
                places.setdefault(sent.row.position, []).append(Seen(sent.operation, sent.row))
        for seen in sightings.of_payload.get(payload, ()):
            if seen.row.topic in topics:
                places.setdefault(seen.row.position, []).append(seen)
        both = [pair for pair in combinations(sorted(places), 2) if cuts.are_both_there(*(places[at] for at in pair))]
        if both:
            double = sorted({position for pair in both for position in pair})
            first = (places[position][0].operation.number for position in places if position in double)
            at = ", ".join(map(str, double))
            yield Finding(Kind.STORED_TWICE, f"{payload} is at positions {at}", tuple(dict.fromkeys(first)))


def is_delayed(request: dict[str, object]) -> bool:
    """Whether the message goes to its topic later: what its answer names is where it waits."""
    return request.get("deliver_at_ms") is not None
