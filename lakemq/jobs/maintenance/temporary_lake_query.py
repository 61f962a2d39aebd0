"""The lake query for as long as a job of maintenance needs it, where none runs beside."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from lakemq.jobs.lake.query import LakeQuery
from lakemq.settings import Settings


@contextmanager
def temporary_lake_query(session: SparkSession, settings: Settings, brokers: Callable[[], str]) -> Generator[None]:
    """Runs the lake query meanwhile: only for who holds the lake's lock. `brokers` says the addresses of gateways."""
    query = LakeQuery(session, settings, brokers())
    try:
        query.start()
        yield
    finally:
        query.stop()
