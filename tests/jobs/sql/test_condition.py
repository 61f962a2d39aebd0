"""Conditions of erasures: expressions over columns, by the list of functions that statements of users are held to."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from lakemq.jobs.errors import InvalidStatement
from lakemq.jobs.sql.condition import check_condition

TAKEN = [
    "topic = 'orders' AND key = 'user-17'",
    "store_time > '2026-01-01' AND tag IS NOT NULL AND NOT is_system(topic)",
    "body_text(body) LIKE '%user-17%' OR body_json(body):user::int = 17",
    "exists(keys, k -> k = 'a') OR properties['a'] = 'b' OR position IN (1, 2)",
    "no_such_column = 1",
]
REFUSED = [
    "position IN (SELECT position FROM messages)",
    "EXISTS (SELECT 1)",
    "(SELECT true)",
    "(SELECT count(*) FROM delta.`/etc`) > 0",
    "reflect('java.lang.System', 'exit', '1') = ''",
    "java_method('java.lang.Runtime', 'getRuntime') IS NULL",
    "count(*) > 1",
    "row_number() OVER (ORDER BY position) = 1",
    "explode(keys) = 'a'",
    "input_file_name() = ''",
    "current_user() = 'root'",
    "rand() > 0.5",
    "my_udf(topic)",
    "topic RLIKE '(a+)+$'",
    "topic = '${env:HOME}'",
    "topic = 'a'; DROP TABLE messages",
    "topic =",
    "",
    "(" * 5_000 + "true" + ")" * 5_000,
    "NOT " * 10_000 + "true",
]


@pytest.mark.parametrize("where", TAKEN)
def test_an_expression_over_columns_is_taken(spark: SparkSession, where: str) -> None:
    check_condition(spark, where)


@pytest.mark.parametrize("where", REFUSED)
def test_all_else_is_refused_before_anything_runs(spark: SparkSession, where: str) -> None:
    with pytest.raises(InvalidStatement):
        check_condition(spark, where)
