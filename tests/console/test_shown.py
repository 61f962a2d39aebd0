"""How values are shown."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.console import curl, shown
from lakemq.console.visit import checked_next
from lakemq.model.failure import FAILURE_CLASS, FAILURE_TEXT
from lakemq.model.names import HALF_TOPIC, SCHEDULE_TOPIC

JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.lists(JSONS, max_size=4) | st.dictionaries(st.text(), JSONS, max_size=4))
def test_json_with_an_indent_says_the_same(value: object) -> None:
    pretty = shown.body_of({"body": json.dumps(value)}).json
    assert pretty is not None
    assert json.loads(pretty) == value


def test_numbers_stand_as_they_were_sent() -> None:
    body = '{"id": 12345678901234567890123, "price": 1.10, "far": 1e400}'
    pretty = shown.body_of({"body": body}).json
    assert pretty == '{\n  "id": 12345678901234567890123,\n  "price": 1.10,\n  "far": 1e400\n}'


@pytest.mark.parametrize("body", ["", "hello", "12", '"word"', "{not json", "[" * 60_000, '{"a": 1} trailing'])
def test_what_is_no_json_is_text(body: str) -> None:
    found = shown.body_of({"body": body})
    assert (found.json, found.text, found.form) == (None, body, "text")


def test_bytes_are_hex_and_a_long_body_is_cut() -> None:
    found = shown.body_of({"body": "AP9BCg==", "body_encoding": "base64"})
    assert (found.text, found.json, found.form) == (None, None, "hex")
    assert found.hex == f"00000000  {'00 ff 41 0a':<47}  ..A."
    long = shown.body_of({"body": "é" * shown.BODY_SHOWN_MAX})
    assert long.cut
    assert long.bytes == 2 * shown.BODY_SHOWN_MAX
    assert long.text == "é" * (shown.BODY_SHOWN_MAX // 2)


@pytest.mark.parametrize(
    ("show", "value", "text"),
    [
        (shown.count, 1234567, "1,234,567"),
        (shown.count, None, "–"),
        (shown.count, float("nan"), "–"),
        (shown.rate, 0.25, "0.2"),
        (shown.size, 1536, "1.5 KiB"),
        (shown.size, 2**45, "32.0 TiB"),
        (shown.duration, float("inf"), "never"),
        (shown.duration, 7200, "2 h"),
        (shown.moment, 1_790_000_000_123, "2026-09-21 14:13:20.123"),
        (shown.moment, 10**18, "–"),
        (shown.moment, -1, "–"),
    ],
)
def test_values_are_shown_so(show: object, value: float | None, text: str) -> None:
    assert callable(show)
    assert show(value) == text


def test_a_time_of_a_form_is_in_utc() -> None:
    assert shown.parse_moment("2026-09-21T14:13:20") == 1_790_000_000_000
    assert shown.parse_moment("2026-09-21T16:13:20+02:00") == 1_790_000_000_000
    assert [shown.parse_moment(each) for each in ("", "soon", "1900-01-01T00:00")] == [None] * 3


def test_a_command_is_safe_for_a_shell_and_names_no_token() -> None:
    command = curl.command("http://h:1", "t", {"body": "it's $(rm -rf /)", "tag": "`x`"}, with_token=True)
    assert '\'{"messages": [{"body": "it\'"\'"\'s $(rm -rf /)", "tag": "`x`"}]}\'' in command
    assert "$LAKEMQ_TOKEN" in command
    assert curl.command("http://h:1", "t", {"body": "x" * (curl.COPIED_MAX + 1)}, with_token=False) == ""


def test_a_command_has_what_the_producer_said_and_nothing_that_the_broker_wrote() -> None:
    properties = {"region": "eu", FAILURE_CLASS: "ValueError", FAILURE_TEXT: "no"}
    dead = {"topic": "%DLQ%g", "real_topic": "t", "body": "x", "properties": properties, "reconsume_times": 3}
    numbers = {"ttl_ms": 60_000, "priority": 2, "queue_id": 7, "position": 9, "born_time_ms": 5}
    assert curl.sent_again(dead | numbers) == {
        "body": "x",
        "properties": {"region": "eu"},
        "ttl_ms": 60_000,
        "priority": 2,
    }
    assert curl.sent_again({"body": "x", "properties": {FAILURE_TEXT: "no"}}) == {"body": "x"}


@pytest.mark.parametrize(
    ("first", "delay"),
    [
        ({"topic": SCHEDULE_TOPIC, "store_time_ms": 400, "born_time_ms": 7, "deliver_at_ms": 1_001}, "deliver_at_ms"),
        ({"topic": SCHEDULE_TOPIC, "store_time_ms": 400, "born_time_ms": 7, "deliver_at_ms": 900}, 500),
        ({"topic": "t", "store_time_ms": 905, "born_time_ms": 300, "deliver_at_ms": 900}, 600),
        ({"topic": "t", "store_time_ms": 905, "born_time_ms": 950, "deliver_at_ms": 900}, None),
        ({"topic": "t", "store_time_ms": 905, "born_time_ms": 950}, None),
        ({"topic": SCHEDULE_TOPIC, "reconsume_times": 1, "store_time_ms": 1, "deliver_at_ms": 1_001}, None),
        ({"topic": HALF_TOPIC, "store_time_ms": 1, "deliver_at_ms": 1_001}, None),
    ],
)
def test_a_command_keeps_a_delay_as_it_makes_sense_now(first: dict[str, object], delay: str | int | None) -> None:
    wanted = {"deliver_at_ms": 1_001} if delay == "deliver_at_ms" else {} if delay is None else {"delay_ms": delay}
    assert curl.delay_of(first, 1_000) == wanted


@pytest.mark.parametrize(
    "where",
    [
        "",
        "https://evil.test/",
        "//evil.test",
        "/\\evil.test",
        "/a\\b",
        "/a\nb",
        "x",
        "/ x",
        "/sign-in",
        "/" + "x" * 9_000,
    ],
)
def test_one_goes_on_to_pages_of_this_console_alone(where: str) -> None:
    assert checked_next(where) == "/"


def test_one_goes_on_to_the_page_that_was_asked_for() -> None:
    assert checked_next("/topics/a?from=end") == "/topics/a?from=end"
