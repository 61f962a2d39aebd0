"""Which statements are served, and which are refused, by the plan that Spark's own parser makes of them."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakemq.jobs.served.readable import SERVED
from lakemq.jobs.served.statement import Statement
from lakemq.jobs.sql.text import check_text
from lakemq.model.errors import InvalidSql
from tests.jobs.sql.statements import REFUSED_STATEMENTS, SERVED_STATEMENTS


def check(spark: SparkSession, statement: str) -> list[str]:
    check_text(statement, 32 * 1024)
    return Statement(spark, statement).parse()


@pytest.mark.parametrize("statement", SERVED_STATEMENTS)
def test_statements_that_read_are_served(spark: SparkSession, statement: str) -> None:
    assert all((name,) in SERVED for name in check(spark, statement))


@pytest.mark.parametrize("statement", REFUSED_STATEMENTS)
def test_all_else_is_refused(spark: SparkSession, statement: str) -> None:
    with pytest.raises(InvalidSql):
        check(spark, statement)


LARGE: dict[str, Any] = {
    "brackets": "SELECT " + "(" * 10_000 + "1" + ")" * 10_000,
    "brackets of types": "SELECT CAST(1 AS " + "ARRAY<" * 3_000 + "INT" + ">" * 3_000 + ")",
    "minus": "SELECT " + "- " * 15_000 + "1",
    "not": "SELECT " + "NOT " * 8_000 + "true",
    "plus": "SELECT " + "1+" * 15_000 + "1",
    "or": "SELECT " + "true OR " * 4_000 + "true",
    "columns": "SELECT " + "1," * 15_000 + "1",
    "case": "SELECT " + "CASE WHEN true THEN " * 1_500 + "1" + " END" * 1_500,
    "unions": "SELECT 1" + " UNION ALL SELECT 1" * 1_600,
    "tables": "SELECT 1 FROM messages" + " UNION ALL SELECT 1 FROM messages" * 40,
    "doubling tables": "WITH a0 AS (SELECT 1 FROM messages)"
    + "".join(f", a{n} AS (SELECT 1 FROM a{n - 1} UNION ALL SELECT 1 FROM a{n - 1})" for n in range(1, 30))
    + " SELECT * FROM a29",
    "doubling text": "WITH a0 AS (SELECT topic AS x FROM messages)"
    + "".join(f", a{n} AS (SELECT x || x AS x FROM a{n - 1})" for n in range(1, 30))
    + " SELECT * FROM a29",
    "doubling within": "SELECT " + "concat(" * 6 + "topic" + ",topic)" * 6 + " FROM messages",
    "doubling sums": "SELECT count(*) FROM ("
    + "".join(f"SELECT c{n - 1} + c{n - 1} AS c{n} FROM (" for n in range(14, 0, -1))
    + "SELECT position AS c0 FROM messages"
    + ")" * 14
    + ") WHERE c14 > 0",
    "trebling cases": "WITH a0 AS (SELECT position AS x FROM messages)"
    + "".join(f", a{n} AS (SELECT CASE WHEN x > 1 THEN x ELSE x + 1 END AS x FROM a{n - 1})" for n in range(1, 8))
    + " SELECT * FROM a7",
    "doubling beside": "SELECT position AS c0"
    + "".join(f", c{n - 1} + c{n - 1} AS c{n}" for n in range(1, 12))
    + " FROM messages",
    "doubling aggregates": "SELECT 1 FROM ("
    + "".join(f"SELECT max(c{n - 1}) + min(c{n - 1}) AS c{n} FROM (" for n in range(11, 0, -1))
    + "SELECT position AS c0 FROM messages"
    + ")" * 12,
    "doubling within functions": "SELECT " + "nullif(" * 11 + "topic" + ", 'a')" * 11 + " FROM messages",
    "all columns of all": "SELECT greatest(*) AS x, least(*) AS y FROM ("
    "SELECT greatest(*) AS x, least(*) AS y FROM (SELECT topic, tag FROM messages))",
    "columns of a pivot": "SELECT * FROM messages PIVOT (count(*), max(position) FOR topic IN ("
    + ", ".join(f"'{n}'" for n in range(51))
    + "))",
    "pivots of pivots": "SELECT * FROM ("
    "SELECT * FROM (SELECT topic, tag FROM messages) PIVOT (count(*) AS n FOR tag IN ('a'))"
    ") PIVOT (max(a) FOR topic IN ('a'))",
    "long": "SELECT '" + "x" * 40_000 + "'",
    "nothing": "  \n ",
    "a comment": "-- SELECT 1",
    "NUL": "SELECT '\x00'",
    "half a character": "SELECT '\ud800'",
}


@pytest.mark.parametrize("name", LARGE)
def test_what_would_cost_too_much_is_refused_and_spark_goes_on(spark: SparkSession, name: str) -> None:
    with pytest.raises(InvalidSql):
        check(spark, LARGE[name])
    assert check(spark, "SELECT 1") == []


def test_what_is_nested_without_growing_is_served(spark: SparkSession) -> None:
    nested = "SELECT topic, position + 1 AS position FROM " + "(SELECT topic, position + 1 AS position FROM " * 20
    assert check(spark, nested + "messages" + ")" * 20 + " WHERE topic = 'a' AND position > 1 AND position < 9")
    wide = "SELECT " + ", ".join(f"position + {n} AS c{n}" for n in range(40)) + ", count(*) FROM messages GROUP BY ALL"
    assert check(
        spark, f"WITH a AS ({wide}) SELECT c0 + c1 + c2 AS x, c3 * c4 AS y FROM (SELECT * FROM a) WHERE c5 > 0"
    )
