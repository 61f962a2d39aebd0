"""What a page says of why a message was, or wasn't, delivered: the rule alone."""

from __future__ import annotations

from typing import Any

import pytest

from lakemq.model.life import CONSUMES_MS, EVENTS_MAX, goes_on, life_of, with_page

NOW = 1_800_000_000_000
SENT = {
    "message_id": "a-1.10",
    "topic": "orders",
    "queue_id": 2,
    "queue_offset": 20,
    "position": 10,
    "store_time_ms": NOW - 60_000,
}
GROUP: dict[str, Any] = {
    "group": "g",
    "model": "clustering",
    "consume_enabled": True,
    "member_count": 1,
    "paused_members": 0,
    "subscribed": True,
    "receives": False,
    "received_ms": None,
    "holds_messages": False,
    "offset": 10,
    "lag": 11,
    "end_offset": 21,
    "passed": False,
    "filters": [],
    "held_by": [],
    "out": None,
    "retries": {"offset": None},
}


GONE: dict[str, Any] = {"member_count": 0, "receives": True}
"""It has received, and has no members."""


def history(*events: dict[str, Any], group: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return {
        "message": SENT,
        "topic": "orders",
        "target": SENT,
        "waits": None,
        "events": [event(number, **each) for number, each in enumerate(events)],
        "groups": [GROUP | (group or {})],
        "now_ms": NOW,
        "read_from_ms": None,
        "next_after": None,
    } | fields


def event(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "position": 11 + number,
        "cause": None,
        "time_ms": NOW - 50_000 + number,
        "group": "g",
        "due_ms": None,
        "reconsume_times": 0,
        "queue_offset": number,
        "tag": None,
        "failure_class": None,
        "failure_text": None,
        "message_id": f"a-1.{11 + number}",
        "pending": None,
    } | fields


NACKED = {"what": "nacked", "failure_class": "ValueError", "failure_text": "boom", "pending": False}
RETRIED = {"what": "retried", "reconsume_times": 1, "queue_offset": 4}


@pytest.mark.parametrize(
    ("given", "text", "tone"),
    [
        (history(), "behind: it is at offset 10, this is at 20: 10 messages come first", "warn"),
        (history(group={"held_by": ["c1"]}), "Its queue is with c1", "warn"),
        (history(group={"offset": 20}), "the next one that the group has to finish", "warn"),
        (history(group={"offset": 21}), "Consumed, or skipped by a reset", "good"),
        (history(group={"offset": None, "lag": 0}), "began after this message", "warn"),
        (history(group={"offset": None, "lag": 21}), "hasn't begun with queue 2 yet", "warn"),
        (history(group={"consume_enabled": False}), "The group is paused: it is at offset 10, this is at 20", "bad"),
        (history(group={"paused_members": 1}), "All its members are paused", "bad"),
        (history(group={"member_count": 0}), "The group has no consumers now", "bad"),
        (
            history(group=GONE | {"received_ms": NOW - CONSUMES_MS - 1, "offset": 20}),
            "no consumers now: it is at offset 20, this is at 20. It last received at 2027-01-15 07:58:29.999. Start",
            "bad",
        ),
        (history(group=GONE), "this is at 20. It has not received since the broker started. Start", "bad"),
        (history(group=GONE | {"received_ms": NOW - CONSUMES_MS}), "10 messages come first", "warn"),
        (history(group=GONE | {"holds_messages": True, "offset": 20}), "the next one that the group has to", "warn"),
        (
            history(NACKED, RETRIED, group=GONE | {"received_ms": NOW - CONSUMES_MS - 1}),
            "the group has no consumers now. It last received at 2027-01-15 07:58:29.999. Last error",
            "bad",
        ),
        (history(group={"model": "broadcasting", "offset": None}), "keeps its own offset", ""),
        (
            history(group={"filters": [{"expression": "a", "matches": False}]}),
            "Will be skipped: the group wants only a",
            "warn",
        ),
        (
            history(group={"offset": 21, "filters": [{"expression": "a", "matches": False}]}),
            "Skipped: the group wants only a",
            "warn",
        ),
        (history(group={"filters": [{"expression": "a", "matches": True}]}), "10 messages come first", "warn"),
        (history(group={"receives": True, "passed": True}), "Skipped: no client received it", "warn"),
        (
            history(group={"receives": True, "passed": True}, read_from_ms=NOW - 1),
            "Consumed, or skipped by a reset",
            "good",
        ),
        (history(group={"out": {"until_ms": NOW, "attempt": 2}}), "Held by a client until 2027-01-15 08:00:00.000", ""),
        (history(expires_ms=NOW - 1), "Expired at 2027-01-15 07:59:59.999", "bad"),
        (history(expires_ms=NOW + 1), "10 messages come first", "warn"),
        (
            history(expires_ms=NOW - 1, group={"offset": 21}),
            "Consumed, or skipped because it expired at 2027-01-15 07:59:59.999",
            "",
        ),
        (
            history(expires_ms=NOW - 1, group={"receives": True, "passed": True}),
            "Skipped: it expired at 2027-01-15 07:59:59.999, and no client had received it",
            "bad",
        ),
        (history({"what": "received", "pending": True, "due_ms": NOW}), "Held by a client until 2027-01-15", ""),
        (history({"what": "received", "pending": False}, {"what": "acknowledged"}), "Consumed: acknowledged", "good"),
        (history(NACKED | {"pending": True}), "its retry isn't decided yet. Last error: ValueError: boom", "warn"),
        (
            history(NACKED, {"what": "scheduled", "pending": True, "due_ms": NOW, "reconsume_times": 3}),
            "In retry 3 until 2027-01-15 08:00:00.000. Last error: ValueError: boom",
            "warn",
        ),
        (history(NACKED, RETRIED), "Retry 1 is ready since", "warn"),
        (history(NACKED, RETRIED, group={"consume_enabled": False}), "Retry 1 waits: the group is paused", "warn"),
        (history(NACKED, RETRIED, group={"member_count": 0}), "the group has no consumers now. Last error", "bad"),
        (history(NACKED, RETRIED, group={"retries": {"offset": 5}}), "Consumed, in retry 1", "good"),
        (
            history(NACKED, {"what": "dead", "pending": True, "failure_text": "boom"}),
            "Dead letter since 2027-01-15 07:59:10.001 because of boom",
            "bad",
        ),
        (history(NACKED, {"what": "dead", "pending": False}), "A dead letter that was redriven or discarded", "warn"),
        (history(NACKED, {"what": "dead", "pending": False, "discarded": True}), "that was discarded: no", "warn"),
        (history(NACKED, {"what": "decided", "tag": "drop"}), "Dropped: it expired", "bad"),
        (history({"what": "received", "pending": False}), "10 messages come first", "warn"),
        (
            history(group={"consume_enabled": False, "offset": None, "lag": 0}),
            "The group is paused. Resume it.",
            "bad",
        ),
    ],
)
def test_a_group_has_it_or_why_not(given: dict[str, Any], text: str, tone: str) -> None:
    (answer,) = life_of(given).answers
    assert text in answer.text
    assert (answer.group, answer.tone) == ("g", tone)


def test_of_a_broker_that_does_not_say_when_a_group_received_it_receives() -> None:
    group = {name: each for name, each in GROUP.items() if name not in ("received_ms", "holds_messages")}
    for receives, text in ((True, "10 messages come first"), (False, "no consumers now: it is at offset 10")):
        (answer,) = life_of(history(groups=[group | GONE | {"receives": receives}])).answers
        assert text in answer.text


WAITED = {"target": None, "groups": None}


@pytest.mark.parametrize(
    ("given", "text", "tone"),
    [
        (history(waits={"for": "time", "due_ms": NOW + 1}, **WAITED), "delayed: no group gets it before", "warn"),
        (history(waits={"for": "time", "due_ms": NOW}, **WAITED), "isn't delivered yet. See whether the jobs", "bad"),
        (history(waits={"for": "nothing", "outcome": "recalled"}, **WAITED), "It was recalled", "bad"),
        (history(waits={"for": "nothing", "outcome": "rollback"}, **WAITED), "rolled back", "bad"),
        (
            history(waits={"for": "resolution", "group": "pg", "check_times": 2, "due_ms": NOW}, **WAITED),
            "until producer group pg commits it. It was asked 2 times. The next check is at 2027",
            "warn",
        ),
        (history({"what": "given_up"}, **WAITED), "Its producer never said", "bad"),
        (history({"what": "decided", "tag": "drop", "group": None}, **WAITED), "It was dropped when it was due", "bad"),
        (history(next_after="x", **WAITED), "Look further", ""),
        (history(**WAITED), "no longer has the record", ""),
        (history(groups=[]), "No group consumes orders", "warn"),
    ],
)
def test_what_no_group_could_get_yet_says_why(given: dict[str, Any], text: str, tone: str) -> None:
    (answer,) = life_of(given).answers
    assert text in answer.text
    assert (answer.group, answer.tone) == ("", tone)


def test_problems_come_first() -> None:
    groups = [GROUP | {"group": "a", "offset": 21}, GROUP | {"group": "b"}, GROUP | {"group": "c", "member_count": 0}]
    assert [each.group for each in life_of(history(groups=groups)).answers] == ["c", "b", "a"]


def test_steps_are_in_the_order_of_time_with_what_is_to_come() -> None:
    given = history(
        {"what": "received", "pending": False, "due_ms": NOW},
        NACKED | {"cause": 11},
        {"what": "scheduled", "cause": 12, "group": None, "pending": True, "due_ms": NOW + 5, "reconsume_times": 1},
        expires_ms=NOW + 9,
    )
    steps = life_of(given).steps
    assert [(each.title, each.group, each.to_come) for each in steps] == [
        ("Stored", "", False),
        ("Handed out", "g", False),
        ("Failed", "g", False),
        ("Put aside until its next delivery", "g", False),
        ("Next delivery", "g", True),
        ("Expires", "", True),
    ]
    assert steps[2].detail == "ValueError: boom"


def test_a_message_that_expired_has_that_among_its_steps() -> None:
    life = life_of(history(expires_ms=NOW, groups=[]))
    assert [(each.title, each.to_come) for each in life.steps] == [("Stored", False), ("Expired", False)]
    assert life.answers[0].text == "No group consumes orders. It expired at 2027-01-15 08:00:00.000."


def test_a_redriven_letter_is_told_from_a_retry_and_reasons_are_cut() -> None:
    dead = {"what": "dead", "pending": False, "failure_text": "x" * 5_000}
    steps = life_of(history(dead, {"what": "retried", "cause": 11, "reconsume_times": 1})).steps
    assert [each.title for each in steps] == ["Stored", "Became a dead letter", "Redriven"]
    assert len(steps[1].detail) < 400


@pytest.mark.parametrize(
    ("tag", "title"),
    [
        ("commit", "Its producer committed it"),
        ("unknown", "Its producer doesn't know yet"),
        (None, "Its producer answered"),
    ],
)
def test_a_half_has_what_its_producer_said(tag: str | None, title: str) -> None:
    half = SENT | {"topic": "RMQ_SYS_TRANS_HALF_TOPIC"}
    steps = life_of(history({"what": "operation", "tag": tag, "group": "pg"}, message=half)).steps
    assert [(each.title, each.group) for each in steps] == [("Stored as a half of a transaction", ""), (title, "")]


def test_what_may_have_gone_on_says_that_the_log_was_not_read_to_its_end() -> None:
    (answer,) = life_of(history(NACKED, RETRIED, next_after="x")).answers
    assert answer.text.endswith("look further.")
    for sure in ({"what": "acknowledged"}, {"what": "received", "pending": True, "due_ms": NOW}):
        (answer,) = life_of(history(sure, next_after="x")).answers
        assert "look further" not in answer.text


def test_what_mends_it_is_a_command_of_the_shell() -> None:
    letter = {"what": "dead", "pending": True, "failure_text": "boom"}
    for given, command in (
        (history(group={"consume_enabled": False}), "lakemq group resume g"),
        (history(group={"consume_enabled": False, "group": "a|b"}), "lakemq group resume 'a|b'"),
        (history(NACKED, RETRIED, group={"consume_enabled": False}), "lakemq group resume g"),
        (history(group={"paused_members": 1}), "lakemq group clients g"),
        (history(NACKED, letter), "lakemq dead-letters show g a-1.12"),
        (history(), "lakemq group lag g"),
        (history(waits={"for": "time", "due_ms": NOW}, **WAITED), "lakemq doctor"),
        (history(group={"offset": 21}), ""),
    ):
        (answer,) = life_of(given).answers
        assert answer.command == command


def test_a_message_that_came_to_its_topic_later_has_a_step_with_its_copy() -> None:
    steps = life_of(history({"what": "stored", "cause": 10})).steps
    assert [(each.title, each.message_id) for each in steps] == [
        ("Stored", "a-1.10"),
        ("Delivered to its topic", "a-1.11"),
    ]


def test_pages_are_added_until_the_log_ends_or_there_are_many_events() -> None:
    first = history({"what": "nacked"}, next_after="x", **WAITED)
    assert goes_on(first)
    later = with_page(first, history({"what": "stored"}, target=None, next_after="y"))
    assert (len(later["events"]), later["target"], later["groups"], goes_on(later)) == (2, None, None, True)
    last = with_page(later, history(*[{"what": "received"}] * EVENTS_MAX, more_groups=3, next_after="z"))
    assert (last["target"], len(last["groups"]), last["more_groups"], goes_on(last)) == (SENT, 1, 3, False)
    assert not goes_on(history())
