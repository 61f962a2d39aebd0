"""The lake query for as long as a job of maintenance needs it, where none runs beside."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from lakemq.jobs.lake.query import LakeQuery
from lakemq.jobs.tables.driver import Driver
from lakemq.settings import Settings


@contextmanager
def temporary_lake_query(
    session: SparkSession, settings: Settings, brokers: Callable[[], str], driver: Driver
) -> Generator[None]:
    """Runs the lake query meanwhile: only for who holds the lake's lock. `brokers` says the addresses of gateways,
    `driver` in whose name it writes."""
    query = LakeQuery(session, settings, brokers(), driver=driver)
    try:
        query.start()
        yield
    finally:
        query.stop()
