"""Names and text in Spark's SQL; `tests/jobs/sql/test_sql_escapes.py` has Spark read them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.spark_sql import literal, quoted


@pytest.mark.parametrize(
    ("name", "written"), [("a", "`a`"), ("a.b c", "`a.b c`"), ("a`b", "`a``b`"), ("", "``"), ("``", "``````")]
)
def test_a_name_is_quoted(name: str, written: str) -> None:
    assert quoted(name) == written


@pytest.mark.parametrize(
    ("text", "written"), [("a", "'a'"), ("it's", r"'it\'s'"), ("\\", r"'\\'"), ("\\'", r"'\\\''"), ("", "''")]
)
def test_text_is_a_literal(text: str, written: str) -> None:
    assert literal(text) == written


@given(st.text())
def test_a_literal_ends_at_its_own_end_and_reads_as_the_text(text: str) -> None:
    inside = literal(text)[1:-1]
    assert re.fullmatch(r"(?:\\.|[^\\'])*", inside, re.DOTALL)
    assert re.sub(r"\\(.)", r"\1", inside, flags=re.DOTALL) == text


@given(st.text())
def test_an_identifier_ends_at_its_own_end(name: str) -> None:
    inside = quoted(name)[1:-1]
    assert re.fullmatch(r"(?:``|[^`])*", inside, re.DOTALL)
    assert inside.replace("``", "`") == name
