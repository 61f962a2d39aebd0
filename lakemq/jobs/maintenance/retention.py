"""The job `retention`: topics keep so long, or so much, as `maintenance.keep` says.

What goes from a topic is its beginning, in all three tables of messages. How far is written down (`cuts`) before
the first row goes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users call it)

from lakemq.jobs.maintenance.cuts import remember_cuts
from lakemq.jobs.maintenance.work import Outcome, Work
from lakemq.jobs.tables.scheduled import SCHEDULED
from lakemq.jobs.tables.tables import CONSUME_QUEUE, MESSAGE_INDEX, MESSAGES
from lakemq.jobs.tables.turns import KEEPING, turn_of
from lakemq.model.keep import Keep, keep_of
from lakemq.model.spark_sql import literal
from lakemq.objects.table_place import sql_place
from lakemq.storage.lake.delta_log import is_made

_MINUTE_MS = 60_000


@dataclass(frozen=True)
class _Topic:
    """What the lake holds of a topic: its messages were stored from `oldest_ms` on."""

    name: str
    oldest_ms: int
    bytes: int
    keep: Keep


def retention(work: Work) -> Outcome:
    """Deletes what the rules no longer keep, and ended scheduled messages past their retention."""
    removed: dict[str, Any] = {}
    if work.options.keep and is_made(CONSUME_QUEUE.path(work.lake)):
        cuts = _cuts(work)
        if cuts:
            remember_cuts(work.lake, cuts)
            with KEEPING:  # else what goes could come back into topics' own tables
                removed |= _cut_topic_tables(work, cuts)
                for table in (CONSUME_QUEUE, MESSAGE_INDEX, MESSAGES):
                    work.check()
                    if is_made(table.path(work.lake)):
                        removed[table.name] = delete_rows(work, table.path(work.lake), _is_before(cuts))
        removed["before"] = {name: _moment(cut) for name, cut in cuts.items()}
    removed["scheduled"] = drop_ended(work)
    return Outcome({"removed": removed})


def _cut_topic_tables(work: Work, cuts: dict[str, int]) -> dict[str, int]:
    """How many rows went, by table."""
    gone: dict[str, int] = {}
    for table in work.topic_tables():
        if table.topic in cuts:
            work.check()
            condition = f"_time < timestamp_millis({cuts[table.topic]})"
            gone[table.path.name] = delete_rows(work, table.path, condition)
    return gone


def drop_ended(work: Work) -> int:
    """Deletes the rows of scheduled messages that ended on a day before the retention; how many."""
    path = SCHEDULED.path(work.lake)
    if not is_made(path):
        return 0
    before_ms = work.steady_ms() - work.settings.lake.scheduled_retention_ms
    day = datetime.fromtimestamp(before_ms / 1000, UTC).date()
    return delete_rows(work, path, f"{SCHEDULED.partition_by} < DATE '{day}'")


def _cuts(work: Work) -> dict[str, int]:
    rows = work.rows(CONSUME_QUEUE)
    now_ms = work.steady_ms()
    cuts: dict[str, int] = {}
    for topic in _topics(rows, work.options.keep):
        work.check()
        candidates: list[int] = []
        if topic.keep.age_ms is not None:
            candidates.append(now_ms - topic.keep.age_ms)
        if topic.keep.bytes is not None and topic.bytes > topic.keep.bytes:
            candidates.append(_cut_by_size(rows.where(F.col("topic") == topic.name), topic.keep.bytes))
        cut = max(candidates, default=0)
        if cut > topic.oldest_ms:
            cuts[topic.name] = cut
    return cuts


def _topics(rows: DataFrame, rules: dict[str, str]) -> list[_Topic]:
    """The topics of the table that a rule concerns."""
    found = rows.groupBy("topic").agg(
        F.unix_millis(F.min("store_time")).alias("oldest_ms"), F.sum("size").alias("bytes")
    )
    topics: list[_Topic] = []
    for row in found.toArrow().to_pylist():
        keep = keep_of(row["topic"], rules)
        if keep is not None:
            topics.append(_Topic(row["topic"], row["oldest_ms"], row["bytes"], keep))
    return topics


def _cut_by_size(rows: DataFrame, bytes_max: int) -> int:
    """Where the newest whole minutes begin that together are `bytes_max` at most; the last minute
    stays, however large it is."""
    minute = F.floor(F.unix_millis("store_time") / _MINUTE_MS).alias("minute")
    by_minute = rows.groupBy(minute).agg(F.sum("size").alias("bytes"))
    newer = Window.orderBy(F.col("minute").desc())
    held = by_minute.select("minute", F.sum("bytes").over(newer).alias("held"), F.row_number().over(newer).alias("nth"))
    kept = held.where((F.col("held") <= bytes_max) | (F.col("nth") == 1)).agg(F.min("minute").alias("minute"))
    return int(kept.toArrow()["minute"][0].as_py()) * _MINUTE_MS


def _is_before(cuts: dict[str, int]) -> str:
    each = (f"topic = {literal(name)} AND store_time < timestamp_millis({cut})" for name, cut in cuts.items())
    return " OR ".join(f"({condition})" for condition in each)


def delete_rows(work: Work, path: Path, condition: str) -> int:
    """Deletes the rows of the table at `path`; how many there were."""
    statement = f"DELETE FROM {sql_place(path)} WHERE {condition}"  # noqa: S608 (made of literals)
    work.forget_cached()
    with turn_of(path):
        rows = work.session.sql(statement).toArrow()
    return int(rows["num_affected_rows"][0].as_py())


def _moment(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="seconds")
