from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.safe_text import one_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, ümlaut, 漢字", "plain, ümlaut, 漢字"),
        ("a\nb\rc\td", "a\\nb\\rc\\td"),
        ("\x1b[2J\x07\x9b", "\\x1b[2J\\x07\\x9b"),
        ("\u2028\u202e", "\\u2028\\u202e"),
        ("\U000e0001", "\\U000e0001"),
        ("\udc80", "\\udc80"),
        ("\x00", "\\x00"),
    ],
)
def test_what_is_not_printable_is_an_escape(text: str, shown: str) -> None:
    assert one_line(text, 100) == shown


def test_what_is_over_is_counted() -> None:
    assert one_line("a" * 100, 10) == "a" * 10 + "… (90 more characters)"
    assert one_line("a" * 10, 10) == "a" * 10


@given(st.text())
def test_nothing_begins_a_line_or_steers_a_terminal(text: str) -> None:
    shown = one_line(text, 50)
    assert shown.isprintable()
    shown.encode()  # which no half of a pair would let it
