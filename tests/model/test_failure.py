"""Why a message failed, as it is kept: bounded, and harmless wherever it is shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.failure import (
    CAUSE_MAX,
    CLASS_MAX,
    CUT,
    FAILURE_CLASS,
    FAILURE_TEXT,
    TEXT_MAX,
    TIME_OUT,
    Failure,
    cause_of,
    failure,
    failure_of,
    ran_out,
    with_failure,
)

texts = st.none() | st.text(st.characters(), max_size=3_000)
WHY = Failure("ValueError", "no amount")


@pytest.mark.parametrize(
    ("given_text", "kept"),
    [
        ("line\n\tand more", "line\n\tand more"),
        ("\x1b[31mred\r", "\\x1b[31mred\\x0d"),
        ("\x9b2J", "\\x9b2J"),
        ("right \u202e to left", "right \\u202e to left"),
        ("a\u2028b", "a\\u2028b"),
        ("half a pair \udc80", "half a pair \\udc80"),
        ("naïve 👩\u200d🚀", "naïve 👩\u200d🚀"),
        ("x" * TEXT_MAX, "x" * TEXT_MAX),
        ("x" * (TEXT_MAX + 1), "x" * (TEXT_MAX - 1) + CUT),
        ("\x00" * 600, "\\x00" * 499 + "\\x0" + CUT),
    ],
)
def test_a_text_is_kept_bounded_and_seen(given_text: str, kept: str) -> None:
    assert failure(None, given_text) == Failure(None, kept)


def test_a_class_is_one_line_and_shorter() -> None:
    assert failure("a\nb\tc") == Failure("a\\x0ab\\x09c", None)
    assert failure("C" * 1_000, "t") == Failure("C" * (CLASS_MAX - 1) + CUT, "t")


@pytest.mark.parametrize(("name", "text"), [(None, None), ("", ""), (None, "")])
def test_where_nothing_is_said_nothing_is_kept(name: str | None, text: str | None) -> None:
    assert failure(name, text) is None


@given(texts, texts)
def test_whatever_is_given_is_kept_within_its_bounds_and_is_text_of_a_message(
    name: str | None, text: str | None
) -> None:
    why = failure(name, text)
    properties = with_failure(None, why)
    assert failure_of(properties) == why
    for value, most in zip((properties or {}).values(), (TEXT_MAX, TEXT_MAX), strict=False):
        assert 0 < len(value) <= most
        assert "\x1b" not in value
        value.encode()
    assert len((why and why.name) or "") <= CLASS_MAX


def test_the_last_reason_takes_the_place_of_the_one_before_and_the_messages_own_properties_stay() -> None:
    assert with_failure({"a": "b"}, WHY) == {"a": "b", FAILURE_CLASS: "ValueError", FAILURE_TEXT: "no amount"}
    before = {FAILURE_CLASS: "KeyError", "a": "b", FAILURE_TEXT: "'x'"}
    assert with_failure(before, Failure(None, "again")) == {"a": "b", FAILURE_TEXT: "again"}
    assert with_failure(before, None) == {"a": "b"}
    assert with_failure({FAILURE_TEXT: "x"}, None) is None
    assert before[FAILURE_CLASS] == "KeyError", "what was given is not changed"


@pytest.mark.parametrize("properties", [None, {}, {"a": "b"}])
def test_without_a_reason_properties_are_as_they_were(properties: dict[str, str] | None) -> None:
    assert with_failure(properties, None) is properties
    assert failure_of(properties) is None


def test_time_that_is_over_is_a_reason() -> None:
    assert ran_out(3) == Failure(TIME_OUT, "handed out 3 times, and never acknowledged in time")


@pytest.mark.parametrize(
    ("name", "text", "cause"),
    [
        ("ValueError", "no amount", "ValueError"),
        (None, " no\n\tamount ", "no amount"),
        ("", "no amount", "no amount"),
        (None, None, ""),
        (None, "x" * CAUSE_MAX + " and more", "x" * CAUSE_MAX),
        (None, "x" * (CAUSE_MAX - 1) + " and more", "x" * (CAUSE_MAX - 1)),
    ],
)
def test_failures_of_a_class_have_one_cause_and_those_without_that_of_their_text(
    name: str | None, text: str | None, cause: str
) -> None:
    assert cause_of(name, text) == cause


@given(texts, texts)
def test_a_cause_is_a_line_that_is_its_own_cause(name: str | None, text: str | None) -> None:
    found = cause_of(name, text)
    assert len(found) <= CAUSE_MAX
    assert found.splitlines() in ([], [found])
    assert cause_of(found, None) == cause_of(None, found) == found
