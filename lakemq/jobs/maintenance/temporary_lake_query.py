"""The lake query for as long as a job of maintenance needs it, where none runs beside."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from lakemq.jobs.lake.query import LakeQuery
from lakemq.settings import Settings


@contextmanager
def temporary_lake_query(session: SparkSession, settings: Settings, broker_url: str) -> Generator[None]:
    """Runs the lake query meanwhile: only for who holds the lake's lock."""
    query = LakeQuery(session, settings, broker_url)
    try:
        query.start()
        yield
    finally:
        query.stop()
