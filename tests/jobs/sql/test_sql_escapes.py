"""Spark reads names and literals as they were meant."""

from __future__ import annotations

from pyspark.sql import SparkSession

from lakemq.model.spark_sql import literal, quoted

TEXTS = [
    "",
    "a",
    "it's",
    "''",
    "\\",
    "\\'",
    "\\\\'",
    "\\n",
    "\n",
    "\\u0041",
    "\\101",
    "%_",
    '"',
    "`",
    "ü😀",
    "' OR '1'='1",
]


def test_literals_and_identifiers_are_read_as_the_text(spark: SparkSession) -> None:
    named = [(text or "empty", text) for text in TEXTS]
    columns = ", ".join(f"{literal(text)} AS {quoted(name)}" for name, text in named)
    row = spark.sql(f"SELECT {columns}").collect()[0]
    assert list(row.asDict().items()) == named
