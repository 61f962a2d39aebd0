"""The lake's tables, empty, as the query makes them: by Spark once in a run, which takes seconds, and copied then."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession

from lakemq.jobs.tables.tables import TABLES


def put_tables(spark: SparkSession, lake: Path) -> None:
    """Put empty tables into the lake, which has none. Not where a test is about how they come there."""
    shutil.copytree(_made(spark).name, lake, dirs_exist_ok=True)


@cache
def _made(spark: SparkSession) -> TemporaryDirectory[str]:
    folder = TemporaryDirectory(prefix="lakemq-tables-")
    for table in TABLES:
        table.create(spark, Path(folder.name))
    return folder
