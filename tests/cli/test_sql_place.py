"""What `lakemq sql` shows of a mistake in a statement."""

from __future__ import annotations

import pytest

from lakemq.cli.sql_place import fail_statement
from lakemq.model.errors import InvalidSql


@pytest.mark.parametrize(
    ("statement", "line", "column", "shown"),
    [
        ("SELECT 1,\n  nope FROM t", 2, 3, ["    nope FROM t", "    ^"]),
        ("SELECT\t'日本', nope", 1, 14, ["  SELECT '日本', nope", "                 ^"]),
        ("SELECT \x1b[31m nope", 1, 14, ["  SELECT  [31m nope", "               ^"]),
        ("x" * 500, 1, 400, ["  " + "x" * 100, "  " + " " * 60 + "^"]),
        ("SELECT", 1, 7, ["  SELECT", "        ^"]),
    ],
)
def test_a_caret_stands_below_the_place(
    statement: str, line: int, column: int, shown: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert fail_statement(statement, InvalidSql("no such column", line, column)) == 1
    said = capsys.readouterr().err.splitlines()
    assert said == [f"lakemq: line {line}, column {column}: no such column", *shown]


@pytest.mark.parametrize(("line", "column"), [(None, None), (3, 1), (1, 99), (0, 1), (1, 0)])
def test_a_place_that_the_statement_does_not_have_is_not_shown(
    line: int | None, column: int | None, capsys: pytest.CaptureFixture[str]
) -> None:
    fail_statement("SELECT 1", InvalidSql("no such column", line, column))
    assert len(capsys.readouterr().err.splitlines()) == 1
