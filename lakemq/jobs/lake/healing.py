"""Puts a lake back before anything is written or proved: what is torn would be marked as on disk else, for ever."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from pyspark.sql import SparkSession

from lakemq.jobs.errors import BrokerUnavailable
from lakemq.jobs.log_client import LogClient
from lakemq.jobs.tables.delta_writer import forget_cached_logs
from lakemq.model.errors import LakeDamaged
from lakemq.storage.lake.delta_log import APPLICATION
from lakemq.storage.lake.heal import heal

_RETRY_S = 2.0


def heal_lake(lake: Path, brokers: Callable[[], str]) -> None:
    """For who holds the lake's lock, before it does anything else.

    `brokers`, addresses with commas, are asked only where rows would go that their logs must have: all of them, as
    what is torn may be of any. Raises `BrokerUnavailable` where one of them doesn't answer, and `LakeDamaged` where
    the logs lack such rows, both with that table as it was; `OSError`.
    """
    try:
        heal(lake)
    except LakeDamaged as damage:
        heal(lake, _log_begins(brokers(), damage))


def heal_again(session: SparkSession, lake: Path, brokers: Callable[[], str]) -> None:
    """The same in a process that has written the lake already: where no lake query runs beside, nobody else looks at
    what a failed sync has left."""
    heal_lake(lake, brokers)
    forget_cached_logs(session)


def _log_begins(brokers: str, damage: LakeDamaged) -> dict[str, int]:
    """By application."""
    begins: dict[str, int] = {}
    if not brokers:
        raise BrokerUnavailable(f"no broker is known that could mend the lake: {damage.detail}") from damage
    for address in brokers.split(","):
        with closing(LogClient(address, _RETRY_S)) as client:
            try:
                end = client.end()
            except BrokerUnavailable as error:
                raise BrokerUnavailable(f"{error.detail}, and its log may mend the lake: {damage.detail}") from error
        begins[APPLICATION + end.broker] = end.begin_position
    return begins
