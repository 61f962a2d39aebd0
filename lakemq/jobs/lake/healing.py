"""Puts a lake back before anything is written or proved: what is torn would be marked as on disk else, for ever."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path

from pyspark.sql import SparkSession

from lakemq.jobs.errors import BrokerUnavailable
from lakemq.jobs.log_client import LogClient
from lakemq.jobs.tables.delta_writer import forget_cached_logs
from lakemq.model.errors import LakeDamaged
from lakemq.storage.lake.delta_log import APPLICATION
from lakemq.storage.lake.heal import MustBeAlone, heal

_RETRY_S = 2.0

Alone = Callable[[], AbstractContextManager[None]]
"""Within it no other thread of the process commits to the lake."""


def heal_lake(lake: Path, brokers: Callable[[], str], alone: Alone | None = None) -> None:
    """For who holds the lake's lock, before it does anything else. With `alone`, others of the process may be writing:
    they are held up only where something is to be set aside, as a commit of theirs would come after a gap else, or
    be of rows that are written again.

    `brokers`, addresses with commas, are asked only where rows would go that their logs must have: all of them, as
    what is torn may be of any. Raises `BrokerUnavailable` where one of them doesn't answer, and `LakeDamaged` where
    the logs lack such rows, both with that table as it was; what `alone` does; `OSError`.
    """
    if alone is not None and _is_sound(lake):
        return
    with nullcontext() if alone is None else alone():
        try:
            heal(lake)
        except LakeDamaged as damage:
            heal(lake, _log_begins(brokers(), damage))


def _is_sound(lake: Path) -> bool:
    try:
        heal(lake, is_alone=False)
    except (MustBeAlone, LakeDamaged):
        return False
    return True


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
