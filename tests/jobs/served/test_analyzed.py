"""Statements that are served stand the look at what they mean too; what only the analyzer knows is refused there."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from lakemq.jobs.served.statement import Bounds, Statement
from lakemq.jobs.sql.allowed import FUNCTIONS
from lakemq.model.errors import InvalidSql
from lakemq.model.sight import ANYBODY
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
