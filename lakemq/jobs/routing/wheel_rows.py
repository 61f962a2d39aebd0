"""Each row of the log as rows for the wheel: an entry that waits, the end of one, or the time.

An example, with a lead of 10 s. A message is scheduled for 12:00:30. Its row of the log makes a `DELAY` that is looked
at by 12:00:20, in the early window that begins at 12:00:16. A receipt that expires at 12:00:30 makes a `RECEIPT` in the
other window, not early, that begins at 12:00:16. If the message is acknowledged, that row makes an `ENDED`, which finds
the same window by the time of the receipt. Once the broker's clock says 12:00:16, its tick makes a `CLOCK` for each
shard of both windows. The early window is then due as a whole. The receipt is due with the tick of 12:00:30.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users call it)

from lakemq.model.delay import LEVELS_MAX
from lakemq.model.names import ACK_TOPIC, HALF_TOPIC, NACK_TOPIC, OP_TOPIC, RECEIVE_TOPIC, SCHEDULE_TOPIC
from lakemq.model.wheel import CATCH_UP_MS, LISTED_MS, SHARD_POSITIONS, SHARDS, WINDOW_MS, Entry, Terms

COLUMNS = (
    *("broker", "position", "topic", "tag", "cause", "origin_message_id", "properties", "deliver_at", "store_time"),
    *("reconsume_times", "check_times", "broker_clock", "broker_clock_before"),
)
"""The columns that it reads of the source. `broker_clock`: the broker's time as of this batch, and
`broker_clock_before` as of the one before. A row without a position is a tick: it says nothing but the time."""

KEY = ("broker", "shard", "early", "window")
"""Rows with the same key meet in one window."""

_AT_ONCE = -1
"""The window of entries that wait for nothing."""
_TIME_MAX = 2**62
_TYPE = (
    "array<struct<shard:int,early:boolean,window:bigint,kind:int,cause:bigint,at_ms:bigint,due_ms:bigint,"
    "times:int,most:int,level:int,until_ms:bigint>>"
)


def wheel_rows(log: DataFrame, terms: Mapping[str, Terms]) -> DataFrame:
    """Rows by `KEY`: entries, with the columns of `Due`; ends of entries; and a `CLOCK` for each window that the
    broker's clock has reached since the batch before. `at_ms`: the time at which an entry is looked at. `until_ms`: as
    of this batch, the entries of the window that are looked at by then are due."""
    rows = F.concat(*(column.cast(_TYPE) for column in (_clocks(), _entry(terms), _end())))
    return log.select("broker", F.inline(rows))


def _clocks() -> Column:
    """Of a tick: a `CLOCK` for each window that may have something due. Early windows are due as they begin; the
    others contain entries that are due one after the other, so the window of the batch before is among them."""
    now, before = _now(), F.unix_millis("broker_clock_before")
    since = F.when(before > 0, F.greatest(before, now - CATCH_UP_MS)).otherwise(now)
    last = _div(now, WINDOW_MS)
    begun = _clocks_of(_div(since, WINDOW_MS) + 1, last, early=True)
    passing = _clocks_of(_div(since, WINDOW_MS), last, early=False)
    return F.when(F.col("position").isNull(), F.concat(begun, passing)).otherwise(_none())


def _clocks_of(first: Column, last: Column, *, early: bool) -> Column:
    def of_shard(window: Column, shard: Column) -> Column:
        return _row(Entry.CLOCK, F.lit(-1), window * WINDOW_MS, early=early, shard=shard)

    def all_shards(window: Column) -> Column:
        return F.transform(F.sequence(F.lit(0), F.lit(SHARDS - 1)), lambda shard: of_shard(window, shard))

    windows = F.when(first <= last, F.sequence(first, last)).otherwise(F.array().cast("array<bigint>"))
    return F.flatten(F.transform(windows, all_shards))


def _entry(terms: Mapping[str, Terms]) -> Column:
    """The entry that a row of the log adds to the wheel, if it does. If it is due too late for the wheel, it is left
    out: the broker lists it when its time approaches."""
    topic, position = F.col("topic"), F.col("position")
    due, stored = F.unix_millis("deliver_at"), F.unix_millis("store_time")
    retried, checked = F.coalesce("reconsume_times", F.lit(0)), F.coalesce("check_times", F.lit(0))
    most = F.coalesce(_number("max_reconsume_times"), F.lit(-1))
    wait = F.when(checked == 0, _term(terms, "timeout_ms")).otherwise(_term(terms, "check_interval_ms"))
    resolved = F.when(F.col("tag") == "commit", int(Entry.COMMIT)).otherwise(int(Entry.ROLLBACK))
    # A consumer may ask for a level that is no int of Spark's. All levels above the highest are the same.
    level = F.least(F.coalesce(_number("delay_level"), F.lit(0)), F.lit(LEVELS_MAX))
    until = F.coalesce(due, stored + wait)  # halves of an older log don't say when they are due
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


def _end() -> Column:
    """The end of an entry, if the row of the log is one. The row has the entry's cause and the time at which it would
    have been looked at, by which the end finds the same window."""
    topic, cause, due = F.col("topic"), F.col("cause"), F.unix_millis("deliver_at")
    replaced = _number("replaced_until_ms")
    of_receipt = topic.isin(ACK_TOPIC, NACK_TOPIC) & cause.isNotNull()
    of_half = (topic == OP_TOPIC) & F.col("tag").isin("commit", "rollback") & _half().isNotNull()
    return (
        F.when(of_receipt & due.isNotNull(), _one(Entry.ENDED, cause, due))
        .when((topic == RECEIVE_TOPIC) & cause.isNotNull() & replaced.isNotNull(), _one(Entry.ENDED, cause, replaced))
        .when(of_half & due.isNotNull(), _one(Entry.ENDED, _half(), due))
        .otherwise(_none())
    )


def _half() -> Column:
    """The position of the half that an operation is for: the last part of its message id."""
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
    """One row. `at` None: it waits for nothing. `shard` None: that of its cause."""
    if at is None:
        window, until = F.lit(_AT_ONCE), F.lit(_TIME_MAX)
    else:
        window = _div(at, WINDOW_MS)
        # An early window is due as a whole once it has begun.
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
    """`lakemq.model.wheel.listed_until`, as a column."""
    return (_div(_now(), LISTED_MS) + 2) * LISTED_MS


def _div(number: Column, by: int) -> Column:
    return F.call_function("div", number, F.lit(by))


def _number(name: str) -> Column:
    """The property of that name."""
    return F.col("properties")[name].cast("bigint")


def _term(terms: Mapping[str, Terms], name: str) -> Column:
    """The term of that name, of the row's own broker."""
    first, *others = terms.items()
    found = F.lit(getattr(first[1], name))
    for broker, each in others:
        found = F.when(F.col("broker") == broker, getattr(each, name)).otherwise(found)
    return found
