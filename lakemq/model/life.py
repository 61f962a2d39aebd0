"""A message's life, from the history that its broker keeps: what happened, step by step, and for each group why it has
or hasn't got the message. Pure: the console and `lakemq message why` both show it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from lakemq.model.written import count, moment

REASON_SHOWN_MAX = 300
EVENTS_MAX = 400
"""Pages of a history are added until it has so many events."""
BROADCASTING = "broadcasting"
CONSUMES_MS = 90_000
"""A receive waits for a minute at most by default: a group without members that hasn't received for longer, and holds
nothing, has no consumers."""
_TITLES = {
    "stored": "Delivered to its topic",
    "scheduled": "Put aside until its next delivery",
    "checked": "Its producer was asked whether to commit",
    "given_up": "Given up: its producer never answered",
    "nacked": "Failed",
    "received": "Handed out",
    "acknowledged": "Acknowledged",
    "retried": "Ready for another delivery",
    "dead": "Became a dead letter",
}
_DECIDED = {"recall": "Recalled", "drop": "Dropped: its topic was deleted, or it expired", "rollback": "Rolled back"}
_OPERATIONS = {
    "commit": "Its producer committed it",
    "rollback": "Its producer rolled it back",
    "unknown": "Its producer doesn't know yet",
}
_TONES = {"acknowledged": "good", "nacked": "warn", "dead": "bad", "given_up": "bad", "stored": "good"}


class Step(NamedTuple):
    """Something that happened, or is to happen. `tone`: good, warn, bad or none. `message_id`: a message to look at."""

    time_ms: int
    title: str
    group: str = ""
    detail: str = ""
    tone: str = ""
    message_id: str = ""
    to_come: bool = False


class Answer(NamedTuple):
    """Whether, and why not, it was delivered: to a group; empty: to any group. `command`: what to run next; may be
    empty."""

    group: str
    text: str
    tone: str
    command: str = ""


class Life(NamedTuple):
    """Steps in their order; answers, problems first."""

    steps: Sequence[Step]
    answers: Sequence[Answer]


class Said(NamedTuple):
    """An answer's text, tone and command."""

    text: str
    tone: str
    command: str = ""


def goes_on(history: Mapping[str, Any]) -> bool:
    """Whether there is another page of this history, after its `next_after`, that should be added."""
    return history["next_after"] is not None and len(history["events"]) < EVENTS_MAX


def with_page(history: Mapping[str, Any], page: Mapping[str, Any]) -> dict[str, Any]:
    """The history with the next page of it, as `GET /v1/messages/{message_id}/history?after=…` answers it."""
    whole = {**history, "events": [*history["events"], *page["events"]], "next_after": page["next_after"]}
    if page["target"] is not None:
        whole |= {name: page.get(name) for name in ("target", "expires_ms", "groups", "more_groups")}
    return whole


def life_of(history: Mapping[str, Any]) -> Life:
    """Of what `GET /v1/messages/{message_id}/history` answers."""
    events = _with_groups(history["events"])
    steps = sorted(_steps(history, events), key=lambda each: each.time_ms)
    before = _before_groups(history, events)
    if before is not None:
        return Life(steps, [before])
    answers = [_of_group(history, group, events) for group in history["groups"] or ()]
    if not answers:
        expired = _expired_ms(history)
        until = "" if expired is None else f" It expired at {moment(expired)}."
        answers = [Answer("", f"No group consumes {history['topic']}.{until}", "warn")]
    return Life(steps, sorted(answers, key=lambda each: (_ORDER.index(each.tone), each.group)))


_ORDER = ("bad", "warn", "", "good")


def _with_groups(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The events, each with the group of what caused it, where it names none itself."""
    groups: dict[int, str] = {}
    found: list[Mapping[str, Any]] = []
    for event in events:
        group = event.get("group") or groups.get(event["cause"] if event["cause"] is not None else -1, "")
        if event["what"] in ("stored", "checked", "operation", "given_up"):
            group = ""  # a producer's, of a half
        groups[event["position"]] = group
        found.append({**event, "group": group})
    return found


# What happened ---------------------------------------------------------------------------------


def _steps(history: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> Iterator[Step]:
    sent = history["message"]
    half = history["topic"] != sent["topic"] and sent["topic"].startswith("RMQ_SYS_TRANS")
    title = "Stored as a half of a transaction" if half else "Stored"
    later = not half and sent["topic"] != history["topic"]
    detail = f"to be delivered at {moment(sent.get('deliver_at_ms'))}" if later else ""
    yield Step(sent["store_time_ms"], title, detail=detail, message_id=sent["message_id"])
    waits: Mapping[str, Any] = history["waits"] or {}
    if waits.get("for") == "time" and waits.get("due_ms"):
        yield Step(waits["due_ms"], "Due", to_come=waits["due_ms"] > history["now_ms"])
    dead = {event["position"] for event in events if event["what"] == "dead"}
    for event in events:
        yield _step(event, dead)
        if event["what"] == "scheduled" and event["pending"] and event["due_ms"]:
            yield Step(event["due_ms"], "Next delivery", event["group"], to_come=event["due_ms"] > history["now_ms"])
    expires_ms = history.get("expires_ms")
    if expires_ms:
        to_come = expires_ms > history["now_ms"]
        yield Step(expires_ms, "Expires" if to_come else "Expired", to_come=to_come)


def _step(event: Mapping[str, Any], dead: set[int]) -> Step:
    what, title = event["what"], _TITLES.get(event["what"], "")
    detail, link = "", ""
    if what == "decided":
        title = _DECIDED.get(event["tag"] or "", "Decided")
    elif what == "operation":
        title = _OPERATIONS.get(event["tag"] or "", "Its producer answered")
    elif what == "retried":
        title = "Redriven" if event["cause"] in dead else title
        detail, link = f"delivery {event['reconsume_times'] + 1}", event["message_id"]
    elif what == "received":
        detail = f"delivery {event['reconsume_times'] + 1}, until {moment(event['due_ms'])}"
    elif what == "scheduled":
        detail = f"until {moment(event['due_ms'])}"
    elif what in ("nacked", "dead"):
        detail = _reason(event)
        link = event["message_id"] if what == "dead" else ""
    elif what == "stored":
        link = event["message_id"]
    return Step(event["time_ms"], title, event["group"], detail, _TONES.get(what, ""), link)


def _reason(event: Mapping[str, Any]) -> str:
    said = [each for each in (event["failure_class"], event["failure_text"]) if each]
    text = ": ".join(said)
    return text if len(text) <= REASON_SHOWN_MAX else f"{text[:REASON_SHOWN_MAX]}…"


# Why it has, or hasn't, got somewhere ----------------------------------------------------------


def _before_groups(history: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> Answer | None:
    """Why no group could get it yet; None: groups could."""
    said = _by_wait(history["waits"] or {}, history["now_ms"]) or _by_end(events)
    if said is None and history["target"] is None:
        if history["next_after"] is not None:
            said = Said("It has been routed, but the log wasn't read far enough to see where to. Look further.", "")
        else:
            said = Said("It has been routed, but the log no longer has the record of where to.", "")
    return None if said is None else Answer("", *said)


def _by_wait(waits: Mapping[str, Any], now_ms: int) -> Said | None:
    due_ms = waits.get("due_ms")
    match waits.get("for"):
        case "time" if due_ms is not None and due_ms <= now_ms:
            return Said(
                f"It was due at {moment(due_ms)} and isn't delivered yet. See whether the jobs run.",
                "bad",
                "lakemq doctor",
            )
        case "time":
            return Said(f"It is delayed: no group gets it before {moment(due_ms)}.", "warn")
        case "resolution":
            return Said(_open_half(waits), "warn")
        case "nothing" if waits.get("outcome") == "recalled":
            return Said("It was recalled, so no group gets it.", "bad")
        case "nothing":
            return Said("Its transaction was rolled back, so no group gets it.", "bad")
        case _:
            return None


def _by_end(events: Sequence[Mapping[str, Any]]) -> Said | None:
    for event in events:
        if event["what"] == "given_up":
            return Said("Its producer never said whether to commit it, so it was rolled back.", "bad")
        if event["what"] == "decided" and event["tag"] == "drop" and not event["group"]:
            return Said("It was dropped when it was due: its topic was deleted, or it had expired.", "bad")
    return None


def _open_half(waits: Mapping[str, Any]) -> str:
    group, checks = waits.get("group"), waits.get("check_times") or 0
    producers = f"producer group {group}" if group else "its producer"
    asked = f" It was asked {checks} times." if checks else ""
    following = f" The next check is at {moment(waits['due_ms'])}." if waits.get("due_ms") else ""
    return f"It is a half message: no group gets it until {producers} commits it.{asked}{following}"


def _of_group(history: Mapping[str, Any], group: Mapping[str, Any], events: Sequence[Mapping[str, Any]]) -> Answer:
    own = [event for event in events if event["group"] == group["group"]]
    said = (
        (_by_event(history, group, own) if own else None)
        or _by_receipt(group)
        or _by_place(history, group)
        or _by_obstacle(history, group)
        or _by_lag(history, group)
    )
    # What is pending is so now; of all else the log may say more.
    if own and history["next_after"] is not None and not own[-1]["pending"] and own[-1]["what"] != "acknowledged":
        said = said._replace(text=f"{said.text} The log wasn't read to its end: look further.")
    return Answer(group["group"], *said)


def _by_event(history: Mapping[str, Any], group: Mapping[str, Any], own: Sequence[Mapping[str, Any]]) -> Said | None:
    """By what happened last."""
    last = own[-1]
    reason = next((text for event in reversed(own) if (text := _reason(event))), "")
    why = f" Last error: {reason}" if reason else ""
    times = last["reconsume_times"]
    match last["what"]:
        case "acknowledged":
            return Said(f"Consumed: acknowledged at {moment(last['time_ms'])}.", "good")
        case "received" if last["pending"]:
            return Said(f"Held by a client until {moment(last['due_ms'])} (delivery {times + 1}).", "")
        case "dead" if last["pending"]:
            because = f" because of {reason}" if reason else ""
            show = f"lakemq dead-letters show {shlex.quote(group['group'])} {last['message_id']}"
            return Said(f"Dead letter since {moment(last['time_ms'])}{because}", "bad", show)
        case "dead" if last.get("discarded"):
            return Said("A dead letter that was discarded: no redrive sends it.", "warn")
        case "dead":
            return Said("A dead letter that was redriven or discarded, or can't be sent again.", "warn")
        case "scheduled" if last["pending"]:
            return Said(f"In retry {times} until {moment(last['due_ms'])}.{why}", "warn")
        case "nacked":
            return Said(f"Failed at {moment(last['time_ms'])}, and its retry isn't decided yet.{why}", "warn")
        case "retried":
            return _by_retry(history, last, group, why)
        case "decided":
            return Said("Dropped: it expired, or the topic was deleted.", "bad")
        case _:
            return None


def _by_retry(history: Mapping[str, Any], last: Mapping[str, Any], group: Mapping[str, Any], why: str) -> Said:
    number, offset = last["reconsume_times"], group["retries"]["offset"]
    if offset is not None and offset > last["queue_offset"]:
        return Said(f"Consumed, in retry {number}." if number else "Consumed, after it was sent again.", "good")
    if not group["consume_enabled"]:
        return Said(f"Retry {number} waits: the group is paused.{why}", "warn", _resume(group))
    if not _has_consumers(history, group):
        return Said(f"Retry {number} waits: the group has no consumers now.{_last_receive(group)}{why}", "bad")
    return Said(
        f"Retry {number} is ready since {moment(last['time_ms'])}, and no client has finished it yet.{why}", "warn"
    )


def _by_receipt(group: Mapping[str, Any]) -> Said | None:
    """By what is out, where the log wasn't read so far."""
    out = group["out"]
    if out is None:
        return None
    return Said(f"Held by a client until {moment(out['until_ms'])} (delivery {out['attempt']}).", "")


def _by_place(history: Mapping[str, Any], group: Mapping[str, Any]) -> Said | None:
    """By where the group is in the queue, if that is beyond the message."""
    offset, at = group["offset"], history["target"]["queue_offset"]
    if not group["passed"] and (offset is None or offset <= at):
        return None
    unwanted = _unwanted(group)
    if unwanted:
        return Said(f"Skipped: the group wants only {unwanted}.", "warn")
    whole = history["next_after"] is None and history["read_from_ms"] is None
    expired = _expired_ms(history)
    if group["receives"] and whole and expired is not None:
        return Said(f"Skipped: it expired at {moment(expired)}, and no client had received it.", "bad")
    if group["receives"] and whole:
        return Said("Skipped: no client received it. Its receives ask for other tags, or its offset was reset.", "warn")
    if expired is not None:
        return Said(f"Consumed, or skipped because it expired at {moment(expired)}.", "")
    return Said(
        f"Consumed, or skipped by a reset: the group is at offset {count(offset)}, this is at {count(at)}.", "good"
    )


def _by_obstacle(history: Mapping[str, Any], group: Mapping[str, Any]) -> Said | None:
    """By what keeps it from the group."""
    if unwanted := _unwanted(group):
        return Said(f"Will be skipped: the group wants only {unwanted}.", "warn")
    expired = _expired_ms(history)
    if expired is not None:
        return Said(f"Expired at {moment(expired)}, before the group came to it.", "bad")
    if group["model"] == BROADCASTING and group["offset"] is None:
        return Said("Each member gets it, and keeps its own offset: the broker doesn't know how far they are.", "")
    if not group["consume_enabled"]:
        return Said(f"The group is paused{_place_of(history, group)}. Resume it.", "bad", _resume(group))
    if not _has_consumers(history, group):
        place = _place_of(history, group)
        return Said(f"The group has no consumers now{place}.{_last_receive(group)} Start its consumers.", "bad")
    if group["member_count"] and group["paused_members"] >= group["member_count"]:
        clients = f"lakemq group clients {shlex.quote(group['group'])}"
        return Said(f"All its members are paused{_place_of(history, group)}.", "bad", clients)
    offset, end, lag = group["offset"], group["end_offset"], group["lag"]
    if offset is None and None not in (end, lag) and end - lag > history["target"]["queue_offset"]:
        return Said(
            "The group began after this message, and starts with newer ones. Reset its offsets to get it.", "warn"
        )
    return None


def _by_lag(history: Mapping[str, Any], group: Mapping[str, Any]) -> Said:
    holders = ", ".join(group["held_by"])
    held = f" Its queue is with {holders}." if holders else ""
    queue = f"queue {history['target']['queue_id']}"
    if group["offset"] is None:
        return Said(f"The group hasn't begun with {queue} yet.{held}", "warn")
    lag = f"lakemq group lag {shlex.quote(group['group'])}"
    ahead = history["target"]["queue_offset"] - group["offset"]
    if not ahead:
        return Said(f"It is the next one that the group has to finish in {queue}.{held}", "warn")
    return Said(
        f"The group is behind{_place_of(history, group)}: {count(ahead)} messages come first.{held}", "warn", lag
    )


def _has_consumers(history: Mapping[str, Any], group: Mapping[str, Any]) -> bool:
    """Whether it has members, or somebody receives for it. Brokers of older versions don't say when."""
    if group["member_count"] or "received_ms" not in group:
        return bool(group["member_count"] or group["receives"])
    received_ms = group["received_ms"]
    return bool(group["holds_messages"]) or (received_ms is not None and history["now_ms"] - received_ms <= CONSUMES_MS)


def _last_receive(group: Mapping[str, Any]) -> str:
    """When somebody received for it last; empty: nobody ever did."""
    if not group["receives"]:
        return ""
    if group["received_ms"] is None:
        return " It has not received since the broker started."
    return f" It last received at {moment(group['received_ms'])}."


def _expired_ms(history: Mapping[str, Any]) -> int | None:
    """When the message expired; None: it hasn't."""
    expires_ms: int | None = history.get("expires_ms")
    return expires_ms if expires_ms and expires_ms <= history["now_ms"] else None


def _resume(group: Mapping[str, Any]) -> str:
    return f"lakemq group resume {shlex.quote(group['group'])}"


def _unwanted(group: Mapping[str, Any]) -> str:
    """What its members want, none of which the message is; empty: it is, or nobody knows."""
    filters = group["filters"]
    if not filters or any(each["matches"] for each in filters):
        return ""
    return " or ".join(each["expression"] for each in filters)[:REASON_SHOWN_MAX]


def _place_of(history: Mapping[str, Any], group: Mapping[str, Any]) -> str:
    if group["offset"] is None:
        return ""
    return f": it is at offset {count(group['offset'])}, this is at {count(history['target']['queue_offset'])}"
