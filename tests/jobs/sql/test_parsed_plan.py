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
