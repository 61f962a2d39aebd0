"""What the log's rows tell the wheel, as columns: what begins to wait, what ends that, and what time it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users call it)

from lakemq.model.names import ACK_TOPIC, HALF_TOPIC, NACK_TOPIC, OP_TOPIC, RECEIVE_TOPIC, SCHEDULE_TOPIC
from lakemq.model.wheel import CATCH_UP_MS, LISTED_MS, SHARD_POSITIONS, SHARDS, WINDOW_MS, Entry, Terms

COLUMNS = (
    *("broker", "position", "topic", "tag", "cause", "origin_message_id", "properties", "deliver_at", "store_time"),
    *("reconsume_times", "check_times", "broker_clock", "broker_clock_before"),
)
"""Those of the source that it takes."""

KEY = ("broker", "shard", "early", "window")

_AT_ONCE = -1
"""The window of what waits for nothing."""
_TIME_MAX = 2**62
_TYPE = (
    "array<struct<shard:int,early:boolean,window:bigint,kind:int,cause:bigint,at_ms:bigint,due_ms:bigint,"
    "times:int,most:int,level:int,until_ms:bigint>>"
)


def wheel_rows(log: DataFrame, terms: Mapping[str, Terms]) -> DataFrame:
    """Rows by `KEY`: entries with what `Due` has of them and the time at which they are looked at; the ends of others;
    and a row for each window that the broker's clock has reached since the batch before. `until_ms`: what is looked at
    by then is due as of this batch."""
    told = F.concat(*(column.cast(_TYPE) for column in (_clock(), _begins(terms), _ends())))
    return log.select("broker", F.inline(told))


def _clock() -> Column:
    now, before = _now(), F.unix_millis("broker_clock_before")
    since = F.when(before > 0, F.greatest(before, now - CATCH_UP_MS)).otherwise(now)
    last = _div(now, WINDOW_MS)
    # Early windows are decided as they begin, the others row by row.
    begun = _windows(_div(since, WINDOW_MS) + 1, last, early=True)
    passing = _windows(_div(since, WINDOW_MS), last, early=False)
    return F.when(F.col("position").isNull(), F.concat(begun, passing)).otherwise(_none())


def _windows(first: Column, last: Column, *, early: bool) -> Column:
    def of_shard(window: Column, shard: Column) -> Column:
        return _row(Entry.CLOCK, F.lit(-1), window * WINDOW_MS, early=early, shard=shard)

    def all_shards(window: Column) -> Column:
        return F.transform(F.sequence(F.lit(0), F.lit(SHARDS - 1)), lambda shard: of_shard(window, shard))

    windows = F.when(first <= last, F.sequence(first, last)).otherwise(F.array().cast("array<bigint>"))
    return F.flatten(F.transform(windows, all_shards))


def _begins(terms: Mapping[str, Terms]) -> Column:
    """What waits from here on, or for nothing. What is due too late for the wheel its broker lists when it is time."""
    topic, position = F.col("topic"), F.col("position")
    due, stored = F.unix_millis("deliver_at"), F.unix_millis("store_time")
    retried, checked = F.coalesce("reconsume_times", F.lit(0)), F.coalesce("check_times", F.lit(0))
    most = F.coalesce(_property("max_reconsume_times", "int"), F.lit(-1))
    wait = F.when(checked == 0, _term(terms, "timeout_ms")).otherwise(_term(terms, "check_interval_ms"))
    resolved = F.when(F.col("tag") == "commit", int(Entry.COMMIT)).otherwise(int(Entry.ROLLBACK))
    level = F.coalesce(_property("delay_level", "int"), F.lit(0))
    until = F.coalesce(due, stored + wait)  # an older log's row does not say it itself
    is_resolution = F.col("tag").isin("commit", "rollback") & _half().isNotNull() & F.col("cause").isNull()
    return (
        F.when(topic.isin(SCHEDULE_TOPIC, RECEIVE_TOPIC) & (due >= _listed_until()), _none())
        .when((topic == HALF_TOPIC) & (until >= _listed_until()), _none())
        .when(topic == SCHEDULE_TOPIC, _one(Entry.DELAY, position, due - _term(terms, "lead_ms"), due, early=True))
        .when(topic == HALF_TOPIC, _one(Entry.HALF, position, until, until, times=checked))
        .when(topic == RECEIVE_TOPIC, _one(Entry.RECEIPT, position, due, due, times=retried, most=most))
        .when(topic == NACK_TOPIC, _one(Entry.NACK, position, None, stored, times=retried, most=most, level=level))
        .when((topic == OP_TOPIC) & is_resolution, _one(resolved, _half(), None, stored))
        .otherwise(_none())
    )


def _ends() -> Column:
    """What waits no more: the row names it, and the time that it had."""
    topic, cause, due = F.col("topic"), F.col("cause"), F.unix_millis("deliver_at")
    replaced = _property("replaced_until_ms", "bigint")
    of_receipt = topic.isin(ACK_TOPIC, NACK_TOPIC) & cause.isNotNull()
    of_half = (topic == OP_TOPIC) & F.col("tag").isin("commit", "rollback") & _half().isNotNull()
    return (
        F.when(of_receipt & due.isNotNull(), _one(Entry.ENDED, cause, due))
        .when((topic == RECEIVE_TOPIC) & cause.isNotNull() & replaced.isNotNull(), _one(Entry.ENDED, cause, replaced))
        .when(of_half & due.isNotNull(), _one(Entry.ENDED, _half(), due))
        .otherwise(_none())
    )


def _half() -> Column:
    """The position of the half that an operation is about: its message id ends with it."""
    return F.substring_index("origin_message_id", ".", -1).cast("bigint")


def _one(kind: Entry | Column, cause: Column, at: Column | None, due: Column | None = None, **more: Any) -> Column:
    return F.array(_row(kind, cause, at, due, **more)).cast(_TYPE)


def _row(
    kind: Entry | Column,
    cause: Column,
    at: Column | None,
    due: Column | None = None,
    *,
    early: bool = False,
    shard: Column | None = None,
    times: Column | None = None,
    most: Column | None = None,
    level: Column | None = None,
) -> Column:
    """One row; `at` None: at once."""
    if at is None:
        window, until = F.lit(_AT_ONCE), F.lit(_TIME_MAX)
    else:
        window = _div(at, WINDOW_MS)
        begun = F.when(window * WINDOW_MS <= _now(), (window + 1) * WINDOW_MS - 1).otherwise(F.lit(-1))
        until = begun if early else _now()
    own = F.lit(0) if at is None else F.pmod(_div(cause, SHARD_POSITIONS), F.lit(SHARDS))
    return F.struct(
        (own if shard is None else shard).cast("int").alias("shard"),
        F.lit(early).alias("early"),
        window.cast("bigint").alias("window"),
        (F.lit(int(kind)) if isinstance(kind, Entry) else kind).cast("int").alias("kind"),
        cause.cast("bigint").alias("cause"),
        (F.lit(-1) if at is None else at).cast("bigint").alias("at_ms"),
        (F.lit(-1) if due is None else due).cast("bigint").alias("due_ms"),
        (F.lit(0) if times is None else times).cast("int").alias("times"),
        (F.lit(-1) if most is None else most).cast("int").alias("most"),
        (F.lit(0) if level is None else level).cast("int").alias("level"),
        until.cast("bigint").alias("until_ms"),
    )


def _none() -> Column:
    return F.array().cast(_TYPE)


def _now() -> Column:
    return F.unix_millis("broker_clock")


def _listed_until() -> Column:
    """`lakemq.model.wheel.listed_until`."""
    return (_div(_now(), LISTED_MS) + 2) * LISTED_MS


def _div(number: Column, by: int) -> Column:
    return F.call_function("div", number, F.lit(by))


def _property(name: str, kind: str) -> Column:
    return F.col("properties")[name].cast(kind)


def _term(terms: Mapping[str, Terms], name: str) -> Column:
    """Each broker's own."""
    first, *others = terms.items()
    found = F.lit(getattr(first[1], name))
    for broker, each in others:
        found = F.when(F.col("broker") == broker, getattr(each, name)).otherwise(found)
    return found
