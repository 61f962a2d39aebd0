"""Statements that are served stand the look at what they mean too; what only the analyzer knows is refused there."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakemq.jobs.served.statement import BARRIER, Bounds, Statement
from lakemq.jobs.sql.allowed import FUNCTIONS
from lakemq.model.errors import InvalidSql
from lakemq.model.sight import ANYBODY, Names, Pattern, Sight
from tests.jobs.served.scene import Scene
from tests.jobs.sql.statements import OF_THE_ANALYZER, SERVED_STATEMENTS


def test_what_is_served_is_served_when_it_is_analyzed(scene: Scene, spark: SparkSession) -> None:
    for text in SERVED_STATEMENTS:
        statement = Statement(spark, text)
        statement.parse()
        statement._analyzed(statement._session, [ANYBODY])  # pyright: ignore[reportPrivateUsage, reportArgumentType]


@pytest.mark.parametrize("text", OF_THE_ANALYZER)
def test_names_that_are_more_than_columns_are_refused(scene: Scene, spark: SparkSession, text: str) -> None:
    statement = Statement(spark, text)
    statement.parse()
    with pytest.raises(InvalidSql):
        statement.run([ANYBODY], Bounds(1, 1_000))


def test_there_are_all_functions_that_are_listed(scene: Scene, spark: SparkSession) -> None:
    assert {name for name in FUNCTIONS if not spark.catalog.functionExists(name)} == set()


def test_no_condition_of_a_statement_is_looked_at_with_those_that_hide_rows(scene: Scene, spark: SparkSession) -> None:
    """Not even after them: in what order the parts of one condition are looked at is nowhere said."""
    names = (Names((Pattern("orders", False),)),)
    orders = Sight(topics=names, groups=names)
    for table in ("messages", "live.messages", "scheduled", "live.topics", "consumer_offsets"):
        column = "position" if table != "live.topics" else "queues"
        statement = Statement(spark, f"SELECT count(*) FROM {table} WHERE {column} % 12345 = 1")
        statement.parse()
        frame: Any = statement._analyzed(statement._session, [orders])  # pyright: ignore[reportPrivateUsage, reportArgumentType]
        plan = str(frame._jdf.queryExecution().optimizedPlan().toString())
        at = [line for line in plan.splitlines() if "12345" in line]
        assert at, plan
        assert not any("orders" in line or BARRIER in line.lower() for line in at), plan
        assert plan.index("12345") < plan.lower().index(BARRIER), plan
