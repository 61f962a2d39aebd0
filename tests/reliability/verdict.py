"""What is wrong with what a fleet has stored, by what its writers and readers were told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from tests.reliability.ledger import Ledger, Taken


def find(ledger: Ledger, stored: list[dict[str, Any]], cut: Collection[str] | None = None) -> list[str]:
    """What is wrong with what is stored, in the order of its positions, a line each. `cut`: the ids of all messages
    that replicas say they cut; None: nothing that was acknowledged may be cut."""
    of_all = [*_lost_or_twice(ledger, stored, cut or ()), *_out_of_order(stored), *_two_at_one_place(ledger)]
    of_all += _two_at_once(ledger.taken)
    if cut is not None:
        return of_all
    return [*of_all, *ledger.changed, *_shown_and_gone(ledger.shown, stored), *_passed_and_there(ledger, stored)]


def lost(ledger: Ledger, stored: list[dict[str, Any]]) -> set[str]:
    """The ids of what was acknowledged and isn't there."""
    there = {each["message_id"] for each in stored}
    return {each.message_id for each in ledger.taken.values()} - there


def _lost_or_twice(ledger: Ledger, stored: list[dict[str, Any]], cut: Collection[str]) -> list[str]:
    times = Counter(each["body"] for each in stored)
    places = {each["body"]: (each["message_id"], each["position"]) for each in stored}
    found = [f"{body} is stored {count} times" for body, count in times.items() if count > 1]
    for body, (message_id, position, *_) in ledger.taken.items():
        if message_id in cut:
            continue
        if body not in times:
            found.append(f"{body} was acknowledged at {position}, and is lost")
        elif places[body] != (message_id, position):
            found.append(f"{body} was acknowledged as {message_id}, and is {places[body]}")
    return [*found, *(f"nobody has sent {body}" for body in times if body not in ledger.sent)]


def _out_of_order(stored: list[dict[str, Any]]) -> list[str]:
    last: dict[str, int] = {}
    found: list[str] = []
    for each in stored:
        writer, _, sequence = each["body"].partition("-")
        if int(sequence) <= last.get(writer, -1):
            found.append(f"{each['body']} comes after {writer}-{last[writer]}")
        last[writer] = int(sequence)
    return found


def _two_at_one_place(ledger: Ledger) -> list[str]:
    of_position = Counter(each.position for each in ledger.taken.values())
    return [
        f"position {position} was acknowledged {count} times" for position, count in of_position.items() if count > 1
    ]


def epoch_of(message_id: str) -> int:
    """The epoch in an id."""
    place = message_id.rpartition("-")[2]
    return int(place.partition(".")[0]) if place.partition(".")[0].isdigit() else 0


def _two_at_once(taken: Mapping[str, Taken]) -> list[str]:
    """What was acknowledged in an epoch, and sent after a later one had acknowledged something. What was sent twice
    doesn't count: its answer names the epoch in which it was stored first."""
    answers = [(each.at_s, epoch_of(each.message_id)) for each in taken.values()]
    first_s: dict[int, float] = {}
    for at_s, epoch in answers:
        first_s[epoch] = min(at_s, first_s.get(epoch, at_s))
    found: list[str] = []
    for body, each in taken.items():
        epoch = epoch_of(each.message_id)
        later = [other for other, at_s in first_s.items() if other > epoch and at_s < each.sent_s]
        if each.times == 1 and later:
            late_ms = int((each.at_s - first_s[min(later)]) * 1000)
            found.append(f"{body} was acknowledged in epoch {epoch} {late_ms} ms after epoch {min(later)} had begun")
    return found


def _shown_and_gone(shown: Mapping[tuple[int, int], str], stored: list[dict[str, Any]]) -> list[str]:
    there = {each["message_id"] for each in stored}
    return [f"{each} was shown at {place}, and is lost" for place, each in shown.items() if each not in there]


def _passed_and_there(ledger: Ledger, stored: list[dict[str, Any]]) -> list[str]:
    """Messages that consumers never come to, as they were told to go on beyond where these are."""
    places = {**ledger.shown, **{(each["queue_id"], each["queue_offset"]): each["message_id"] for each in stored}}
    return [
        f"{message_id} is at {queue, offset}, and {address} passed over {begin} to {end - 1} there"
        for (queue, offset), message_id in places.items()
        for (of, begin, end), address in ledger.passed.items()
        if of == queue and begin <= offset < end
    ]
