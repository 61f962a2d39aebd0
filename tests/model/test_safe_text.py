from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.safe_text import escaped, one_line, safe_json


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


def test_a_cell_is_escaped_whole() -> None:
    assert escaped("a" * 300 + "\x1b") == "a" * 300 + "\\x1b"


@pytest.mark.parametrize("text", ["\x7f", "\x9b31m", "a\u202eb\u2066", "\u2028", "\U000e0001", "\udc80", "ü 漢字 🙂"])
@pytest.mark.parametrize("indent", [None, 2])
def test_json_of_the_same_value_steers_no_terminal(text: str, indent: int | None) -> None:
    content = safe_json(json.dumps({text: [text]}, ensure_ascii=False, indent=indent))
    assert json.loads(content) == {text: [text]}
    assert content.replace("\n", "").isprintable()
    assert ("ü 漢字 🙂" in content) == text.startswith("ü")


def test_an_escape_of_json_has_four_digits() -> None:
    assert safe_json('"\x7f\u202e\U000e0001"') == '"\\u007f\\u202e\\udb40\\udc01"'


@given(st.dictionaries(st.text(), st.text()))
def test_any_json_keeps_its_value(value: dict[str, str]) -> None:
    content = safe_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(content) == value
    assert content.isprintable()
