"""The demo's questions to the lake, in Spark SQL."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# (pyarrow carries no types)

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lakemq.cli.demo import queries
from lakemq.cli.demo.queries import Leg
from lakemq.model.errors import LakemqError
from lakemq.settings import Settings


@dataclass(frozen=True)
class Stored:
    """What the lake's table `messages` holds of the flights."""

    rows: int
    flights: int
    out_of_order: int
    split_tails: int


@dataclass(frozen=True)
class Counted:
    """Scheduled messages of one topic, kind and state, and how late they were delivered at most."""

    topic: str
    kind: str
    state: str
    count: int
    late_ms_max: int | None


@dataclass(frozen=True)
class Event:
    """One event of a transaction."""

    event: str
    by: str
    event_time: datetime
    state: str | None
    check_times: int | None


@dataclass(frozen=True)
class Day:
    """One aircraft's day of 2013."""

    tail: str
    month: int
    day: int
    legs: list[Leg]


class History:
    """A session at the Spark of the demo's jobs; a context manager, as the server keeps its session.

    Raises `LakemqError` when no jobs run for that lake.
    """

    def __init__(self, settings: Settings, lake: Path) -> None:
        from lakemq.jobs.session.discovery import find_server
        from lakemq.jobs.session.token_file import token_for
        from lakemq.jobs.sql.connect_client import ConnectClient

        server = find_server(lake)
        if server is None:
            raise LakemqError(f"no Spark server runs for the lake in {lake}")
        self._client = ConnectClient(server, token_for(settings.sql, lake))
        self.rows(queries.VIEW)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._client.close()

    def stored(self) -> Stored:
        """How many rows, and whether they are in order."""
        (rows,) = self.rows(queries.ROWS)
        (order,) = self.rows(queries.OUT_OF_ORDER)
        (split,) = self.rows(queries.SPLIT_TAILS)
        return Stored(rows["stored"], rows["flights"], order["out_of_order"], split["split_tails"])

    def delay_by_carrier(self) -> list[tuple[str, float]]:
        """Average minutes of delay at departure, the worst first."""
        return [(row["carrier"], row["minutes"]) for row in self.rows(queries.BY_CARRIER)]

    def delay_by_month(self) -> list[tuple[int, float]]:
        """Average minutes of delay at departure, by month."""
        return [(row["month"], row["minutes"]) for row in self.rows(queries.BY_MONTH)]

    def busiest_day(self) -> Day:
        """The day of the aircraft that flew most often on one day."""
        (found,) = self.rows(queries.BUSIEST)
        tail, month, day = found["tail"], found["month"], found["day"]
        legs = self.rows(queries.aircraft_day(tail, month, day))
        return Day(tail, month, day, [Leg(**row) for row in legs])

    def scheduled(self) -> list[Counted]:
        """The scheduled messages, counted by topic, kind and state."""
        return [Counted(**row) for row in self.rows(queries.SCHEDULED)]

    def transaction(self, transaction_id: str) -> list[Event]:
        """A transaction's events, in their order."""
        return [Event(**row) for row in self.rows(queries.transaction_history(transaction_id))]

    def rows(self, query: str) -> list[dict[str, Any]]:
        """The rows that SQL answers."""
        return [row for batch in self._client.run(query).batches for row in batch.to_pylist()]
