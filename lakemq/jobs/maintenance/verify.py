"""The job `verify`: whether the log, `messages`, `consume_queue`, `message_index` and topics' own tables agree.

It takes one version of each table and the positions that all of them hold, part by part, so that
what is held in memory is bounded. A part whose digests agree is done with; where they don't, the
rows are compared. It changes nothing, and what is written meanwhile is not its concern.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users call it)

from lakemq.jobs.log_client import LogClient
from lakemq.jobs.maintenance.cuts import read_cuts
from lakemq.jobs.maintenance.offset_gaps import gaps_of
from lakemq.jobs.maintenance.rebuild import derived_rows
from lakemq.jobs.maintenance.verify_topic_tables import TopicTablesVerified
from lakemq.jobs.maintenance.work import Outcome, Work
from lakemq.jobs.source.log_range import read_range
from lakemq.jobs.source.options import SourceOptions
from lakemq.jobs.source.plan import LogPartition
from lakemq.jobs.tables.digest import SAMPLE, compare, differences
from lakemq.jobs.tables.holes import (
    ERASED,
    LOST,
    Hole,
    Holes,
    append_holes,
    holes_of_log,
    ranges_of,
    read_begun,
    read_holes,
)
from lakemq.jobs.tables.table import LakeTable
from lakemq.jobs.tables.tables import CONSUME_QUEUE, MESSAGE_INDEX, MESSAGES
from lakemq.model.errors import LakemqError, LogReplaced
from lakemq.storage.lake.progress import read_progress

FINDINGS_MAX = 100
_TABLES = (MESSAGES, CONSUME_QUEUE, MESSAGE_INDEX)
_KEYS = {MESSAGES.name: ("position",), CONSUME_QUEUE.name: ("position",), MESSAGE_INDEX.name: ("position", "key")}


@dataclass
class _Report:
    rows: int = 0
    log_rows: int = 0
    brokers: dict[str, Any] = field(default_factory=dict[str, Any])
    findings: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def add(self, **finding: Any) -> None:
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(finding)


def verify(work: Work) -> Outcome:
    """Compares them all; `differs` when there is any finding. Raises `LakemqError` without tables."""
    there = work.tables()
    lacking = [table.name for table in _TABLES if table not in there]
    if lacking:
        raise LakemqError(f"the lake has no table {lacking[0]}")
    progress = {table.name: read_progress(table.path(work.lake)) for table in _TABLES}
    is_kept = _is_kept(read_cuts(work.lake))
    frames = {table.name: work.rows(table, progress[table.name].version).where(is_kept) for table in _TABLES}
    report = _Report()
    clients, away = _clients(work)
    try:
        for broker in sorted(set[str]().union(*(each.held for each in progress.values()))):
            end = min(each.held.get(broker, 0) for each in progress.values())
            log_id = progress[MESSAGES.name].log_id(broker)
            _Broker(work, report, frames, broker, end, clients.get(broker), log_id).verify()
    finally:
        for client in clients.values():
            client.close()
    messages, held = frames[MESSAGES.name], progress[MESSAGES.name]
    topic_tables = TopicTablesVerified(work, messages, held, is_kept, report.add).verify()
    detail = {
        "versions": {name: each.version for name, each in progress.items()},
        "messages": report.rows,
        "log_messages": report.log_rows,
        "topic_tables": topic_tables,
        "brokers": report.brokers,
        "brokers_away": away,
        "findings": report.findings,
    }
    return Outcome(detail, differs=bool(report.findings))


class _Broker:
    """One broker's messages below `end`, of the log `log_id`; without a `client` that is not looked at."""

    def __init__(
        self,
        work: Work,
        report: _Report,
        frames: Mapping[str, DataFrame],
        broker: str,
        end: int,
        client: LogClient | None,
        log_id: str,
    ) -> None:
        self._log_id = log_id
        self._work, self._report, self._broker, self._end, self._client = work, report, broker, end, client
        self._frames = {name: frame.where(F.col("broker") == broker) for name, frame in frames.items()}
        self._known = Holes(read_holes(work.lake, broker))
        self._of_log: list[Hole] = []
        self._begun = Holes(read_begun(work.lake, broker))
        self._filled: list[Hole] = []
        self._log_begin = end if client is None else min(end, client.end().begin_position)
        self._options = SourceOptions(brokers=(client.address,) if client is not None else ("",))

    def verify(self) -> None:
        begin = min(self._first(MESSAGES), self._first(CONSUME_QUEUE), self._log_begin)
        for low in range(begin, self._end, self._work.options.verify_rows):
            self._work.check()
            self._part(low, min(self._end, low + self._work.options.verify_rows))
        self._report.brokers[self._broker] = {"from": begin, "to": self._end, "log_from": self._log_begin}
        below = self._frames[CONSUME_QUEUE.name].where(F.col("position") < self._end)
        holes, filled = Holes([*self._known, *self._of_log]), Holes(self._filled)
        for gap in gaps_of(
            below, lambda *between: holes.count_between(*between) - filled.count_between(*between), FINDINGS_MAX
        ):
            self._report.add(check="queue", broker=self._broker, **gap)

    def _first(self, table: LakeTable) -> int:
        """The table's first position, its end if it has none: what only one of the tables has lost is found."""
        (row,) = self._frames[table.name].agg(F.min("position").alias("first")).toArrow().to_pylist()
        return self._end if row["first"] is None else row["first"]

    def _part(self, low: int, high: int) -> None:
        within = (F.col("position") >= low) & (F.col("position") < high)
        rows = {name: frame.where(within) for name, frame in self._frames.items()}
        messages, of_log = rows[MESSAGES.name], list[Hole]()
        for table in (CONSUME_QUEUE, MESSAGE_INDEX):
            self._compare(table, derived_rows(table, messages), rows[table.name], low, high, duplicates=True)
        self._report.rows += messages.count()
        if self._client is not None:
            log_low = max(low, self._client.end().begin_position)
            if log_low < high:
                of_log = self._part_of_log(self._client, messages.where(F.col("position") >= log_low), log_low, high)
        self._of_log += of_log
        if holes := Holes([*self._known.between(low, high), *of_log]).positions(low, high):
            # A hole excuses no other row's lack where its own row is there.
            self._filled += ranges_of(self._there(rows[CONSUME_QUEUE.name], holes))

    def _there(self, rows: DataFrame, positions: list[int]) -> list[int]:
        """Those of the positions that have a row."""
        asked = self._work.session.createDataFrame(pa.table({"position": positions}))
        found = rows.join(F.broadcast(asked), "position", "left_semi").select("position").distinct()
        return found.toArrow()["position"].to_pylist()

    def _part_of_log(self, client: LogClient, messages: DataFrame, low: int, high: int) -> list[Hole]:
        """The holes that the log has there."""
        columns = [name for name in MESSAGES.columns if name != "body" or self._work.options.verify_bodies]
        try:
            holes = holes_of_log(client, low, high, self._log_id)
        except LakemqError as error:
            # Else the log has let go of it meanwhile.
            if isinstance(error, LogReplaced) or client.end().begin_position <= low:
                self._report.add(check="log", broker=self._broker, low=low, high=high, error=error.detail)
            return []
        empty = Holes(holes).positions(low, high)
        self._note(empty, messages)
        self._report.log_rows += high - low - len(empty)
        if empty:  # what the lake had before the log lost it, it may keep
            positions = self._work.session.createDataFrame(pa.table({"position": empty}))
            messages = messages.join(F.broadcast(positions), "position", "left_anti")
        partition = LogPartition(self._broker, client.address, low, high, 0, {}, {}, log_id=self._log_id)
        log = read_range(self._work.session, [partition], columns, self._options)
        log = log.where(_is_kept(read_cuts(self._work.lake)))
        self._compare(MESSAGES, log, messages, low, high, columns)
        return holes

    def _note(self, empty: list[int], messages: DataFrame) -> None:
        """Writes down what the log has lost by itself, and what an erasure took from it that was cut short, where the
        lake hasn't it either: where it still has it, the erasure is to find it there, and to say so then."""
        if not empty:
            return
        known = self._known.positions(empty[0], empty[-1] + 1)
        begun = set(self._begun.positions(empty[0], empty[-1] + 1)).difference(known)
        if taken := begun.intersection(empty):
            gone = taken.difference(self._there(messages, sorted(taken)))
            append_holes(self._work.lake, self._broker, ranges_of(gone), ERASED)
        append_holes(self._work.lake, self._broker, ranges_of(set(empty) - taken), LOST)
        self._work.bring_to_disk()  # nothing writes them again

    def _compare(
        self,
        table: LakeTable,
        expected: DataFrame,
        actual: DataFrame,
        low: int,
        high: int,
        columns: list[str] | None = None,
        *,
        duplicates: bool = False,
    ) -> None:
        names, key = columns or list(table.columns), _KEYS[table.name]
        same, repeated = compare(expected, actual, names, key)
        place = {"check": table.name, "broker": self._broker, "low": low, "high": high}
        if duplicates and repeated:
            twice = actual.groupBy(*key).count().where("count > 1").limit(SAMPLE)
            self._report.add(**place, duplicates=repeated, sample=twice.toArrow().to_pylist())
        if not same:
            difference = differences(expected, actual, names, key)
            self._report.add(**place, **difference._asdict())


def _is_kept(cuts: Mapping[str, int]) -> Column:
    """Of a row: whether retention has not let it go, or may have done so half."""
    condition = F.lit(True)
    for topic, cut in cuts.items():
        condition = condition & ~((F.col("topic") == topic) & (F.col("store_time") < F.timestamp_millis(F.lit(cut))))
    return condition


def _clients(work: Work) -> tuple[dict[str, LogClient], list[str]]:
    """The brokers that answer, by name; and the addresses of those that don't."""
    clients: dict[str, LogClient] = {}
    away: list[str] = []
    for address in work.broker_url.split(","):
        client = LogClient(address, retry_s=2.0)
        try:
            clients[client.end().broker] = client
        except LakemqError:
            away.append(address)
    return clients, away
