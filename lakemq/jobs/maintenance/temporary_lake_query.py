"""The lake query for as long as a job of maintenance needs it, where none runs beside."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from lakemq.jobs.lake.query import LakeQuery
from lakemq.jobs.tables.driver import Driver
from lakemq.settings import Settings


@contextmanager
def temporary_lake_query(
    session: SparkSession, settings: Settings, brokers: Callable[[], str], driver: Driver
) -> Generator[Callable[[], None]]:
    """Runs the lake query meanwhile: only for who holds the lake's lock. `brokers` says the addresses of gateways,
    `driver` in whose name it writes. What is given is to be called while its batches are waited for: it raises
    `StreamingQueryException` when the query has ended, which waits for nobody."""
    query = LakeQuery(session, settings, brokers(), driver=driver)
    try:
        stream = query.start()
        yield lambda: _check(stream)
    finally:
        query.stop()


def _check(stream: StreamingQuery) -> None:
    error = None if stream.isActive else stream.exception()
    if error is not None:
        raise error
