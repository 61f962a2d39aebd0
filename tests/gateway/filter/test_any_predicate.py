"""Random predicates over random rows, against plain functions of one row."""

from __future__ import annotations

import re
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakemq.gateway.filter import compile_filter
from lakemq.model.errors import InvalidFilter
from tests.gateway.filter.reference import COLUMNS, Expected, Row, conditions, rows, to_batch

EXAMPLES = pytest.mark.parametrize("examples", [150, pytest.param(1_000, marks=pytest.mark.long)])


@EXAMPLES
def test_a_predicate_says_of_every_row_what_a_plain_function_says(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(conditions, st.lists(rows, min_size=1, max_size=4))
    def says(condition: Expected, messages: list[Row]) -> None:
        compiled = compile_filter(condition.sql, COLUMNS)
        assert compiled.evaluate(to_batch(messages)).to_pylist() == [condition.of(message) for message in messages]

    says()


@settings(max_examples=100, deadline=None)
@given(conditions, st.lists(rows, max_size=3))
def test_only_true_matches_and_only_the_named_columns_are_needed(condition: Expected, messages: list[Row]) -> None:
    compiled = compile_filter(condition.sql, COLUMNS)
    batch = to_batch(messages).select(sorted(compiled.columns)) if compiled.columns else to_batch(messages)
    assert compiled.matches(batch).to_pylist() == [condition.of(message) is True for message in messages]


PIECES = """
tag body position keys properties store_time = <> < > <=> ( ) [ ] , . ' " ` 'a' 1 1.5 - + * / || ! NOT AND OR
IS NULL IN BETWEEN LIKE ILIKE RLIKE ESCAPE TRUE CAST( AS string bigint timestamp SELECT CASE WHEN END lower( size(
array_contains( concat( substring( trim( element_at( TIMESTAMP DATE INTERVAL -- /* */ ; :: ? @ $ { } ~ % & | ^
x'a' r'a' 1L 2BD 1e400 properties.x properties['x'] FROM EXISTS DISTINCT ANY ALL
"""


@st.composite
def broken(draw: st.DrawFn) -> str:
    """A predicate of which some pieces are missing, doubled or out of place."""
    pieces = re.findall(r"\w+|\s+|'[^']*'|.", draw(conditions).sql, re.DOTALL)
    for _ in range(draw(st.integers(1, 4))):
        begin, end = sorted(draw(st.tuples(*[st.integers(0, len(pieces))] * 2)))
        other = draw(st.sampled_from(["", " ", *PIECES.split()]) | st.just(" ".join(pieces[begin:end])))
        pieces[begin : min(end, begin + 2)] = [other]
    return "".join(pieces)


@EXAMPLES
def test_no_text_raises_anything_but_invalid_filter(examples: int) -> None:
    @settings(max_examples=examples, deadline=None)
    @given(broken() | st.text(max_size=60) | st.lists(st.sampled_from(PIECES.split()), max_size=12).map(" ".join))
    def raises(text: str) -> None:
        with suppress(InvalidFilter):
            compile_filter(text, COLUMNS).evaluate(to_batch([]))

    raises()
