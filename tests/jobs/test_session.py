from __future__ import annotations

from pyspark.sql import SparkSession


def test_a_session_has_the_name_that_it_was_given(spark: SparkSession) -> None:
    assert spark.sparkContext.appName == "lakemq tests"
