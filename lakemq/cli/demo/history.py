"""The demo's questions to the lake, in Spark SQL."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from lakemq.cli.demo import queries
from lakemq.cli.demo.queries import Leg
from lakemq.cli.quiet import quiet_stderr
from lakemq.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Stored:
    """What the lake's table `messages` holds of the flights."""

    rows: int
    flights: int
    out_of_order: int
    split_tails: int


@dataclass(frozen=True)
class Day:
    """One aircraft's day of 2013."""

    tail: str
    month: int
    day: int
    legs: list[Leg]


class History:
    """A Spark session over the lake; a context manager, because the session holds a JVM."""

    def __init__(self, settings: Settings, lake: Path) -> None:
        from lakemq.jobs.sql import open_lake

        there = settings.model_copy(update={"lake": settings.lake.model_copy(update={"dir": lake})})
        with quiet_stderr():
            self._session = open_lake(there)
        self._ask(queries.VIEW)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._session.stop()

    def stored(self) -> Stored:
        """How many rows, and whether they are in order."""
        (rows,) = self._rows(queries.ROWS)
        (order,) = self._rows(queries.OUT_OF_ORDER)
        (split,) = self._rows(queries.SPLIT_TAILS)
        return Stored(rows["stored"], rows["flights"], order["out_of_order"], split["split_tails"])

    def delay_by_carrier(self) -> list[tuple[str, float]]:
        """Average minutes of delay at departure, the worst first."""
        return [(row["carrier"], row["minutes"]) for row in self._rows(queries.BY_CARRIER)]

    def delay_by_month(self) -> list[tuple[int, float]]:
        """Average minutes of delay at departure, by month."""
        return [(row["month"], row["minutes"]) for row in self._rows(queries.BY_MONTH)]

    def busiest_day(self) -> Day:
        """The day of the aircraft that flew most often on one day."""
        (found,) = self._rows(queries.BUSIEST)
        tail, month, day = found["tail"], found["month"], found["day"]
        legs = self._rows(queries.aircraft_day(tail, month, day))
        return Day(tail, month, day, [Leg(**row) for row in legs])

    def _rows(self, query: str) -> list[dict[str, Any]]:
        return [row.asDict() for row in self._ask(query).collect()]

    def _ask(self, query: str) -> DataFrame:
        return self._session.sql(query)  # pyright: ignore[reportUnknownMemberType]  (Spark's own gap)
