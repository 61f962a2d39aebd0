"""Delays: scheduled messages wait in a timing wheel until one lead before they are due.

The wheel's rules are `lakemq.model.wheel`. Here a slot is a key of the state: its rows stand in a
list, a blob a batch, with a timer for when it fires. What a wide slot is sorted into when it fires
stays under its key, in a map with timers of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as all of Spark's users call it)
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)

from lakemq.jobs.routing.broker_routing import RoutingTerms
from lakemq.jobs.routing.query import Kind
from lakemq.jobs.routing.sender import Decision
from lakemq.jobs.routing.stream import above_watermark
from lakemq.model.names import SCHEDULE_TOPIC
from lakemq.model.wheel import FANOUT, WIDTHS_MS, Slot, Waiting, pack, slots_firing_at, sort_out, unpack, unpack_columns

_DECIDED = "broker string, cause bigint, due_ms bigint"
_NOW = 0
"""The width of the slot of what is decided at once."""


class DelayRule:
    """Scheduled messages are delivered at their due time, and that is decided a lead before it."""

    name = "delay"
    kind: Kind = "delay"
    topics = (SCHEDULE_TOPIC,)
    columns = ("broker", "position", "deliver_at", "clock")
    timer = "delay"
    trigger_ms_min = 0

    def rows(self, log: DataFrame, terms: RoutingTerms) -> DataFrame:
        scheduled = log.withWatermark("clock", "0 seconds").where(
            above_watermark(F.col("position").isNotNull(), "clock")
        )
        due_ms, now_ms = F.unix_millis("deliver_at"), F.unix_millis("clock")
        width_ms, number = slot_columns(due_ms, now_ms, terms.lead_ms)
        keyed = scheduled.select(
            "broker",
            F.col("position").alias("cause"),
            due_ms.alias("due_ms"),
            width_ms.alias("width_ms"),
            number.alias("number"),
            "clock",
        )
        waiting = keyed.groupBy("broker", "width_ms", "number")
        return waiting.transformWithStateInPandas(_Wheel(terms.lead_ms), _DECIDED, "Append", "EventTime")

    def decisions(self, rows: pa.Table, terms: RoutingTerms) -> Iterable[Decision]:
        _ = terms
        for broker, cause, due_ms in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            yield Decision(broker, cause, "deliver", due_ms)


def slot_columns(due_ms: Column, now_ms: Column, lead_ms: int) -> tuple[Column, Column]:
    """`lakemq.model.wheel.slot_of` for columns: width and number; both 0 for what is decided."""
    distance_ms = due_ms - lead_ms - now_ms
    wide = F.lit(WIDTHS_MS[-1])
    for width in reversed(WIDTHS_MS[:-1]):
        wide = F.when(distance_ms < FANOUT * width, width).otherwise(wide)
    number = F.call_function("div", due_ms, wide)
    waits = number * wide - lead_ms > now_ms
    return F.when(waits, wide).otherwise(_NOW).cast("bigint"), F.when(waits, number).otherwise(0).cast("bigint")


class _Wheel(StatefulProcessor):
    """The slots' state. What it yields is decided."""

    def __init__(self, lead_ms: int) -> None:
        self._lead_ms = lead_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._arrived = handle.getListState("arrived", "rows binary")
        self._sorted = handle.getMapState("sorted", "width_ms bigint, number bigint", "rows binary")

    # Spark gives the arguments by these names.
    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:  # noqa: N802, N803
        _broker, width_ms, number = key
        if width_ms == _NOW:
            for frame in rows:
                yield frame[["broker", "cause", "due_ms"]]
            return
        for frame in rows:
            self._arrived.appendValue((frame[["cause", "due_ms"]].to_numpy("int64").tobytes(),))
        self._handle.registerTimer(Slot(width_ms, number).fires_at_ms(self._lead_ms))

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Any]:
        broker, width_ms, number = key
        now_ms = timerValues.getCurrentWatermarkInMs()
        for slot in slots_firing_at(expiredTimerInfo.getExpiryTimeInMs(), self._lead_ms):
            fired = self._take(slot, slot == (width_ms, number))
            if slot.width_ms > WIDTHS_MS[0]:
                fired = self._put(sort_out(unpack(fired), now_ms, self._lead_ms))
            if fired:
                causes, dues_ms = unpack_columns(fired)
                yield pd.DataFrame({"broker": broker, "cause": causes, "due_ms": dues_ms})

    def _take(self, slot: Slot, is_key: bool) -> bytes:
        """The slot's rows, which it no longer holds then."""
        if is_key:
            blobs = [bytes(blob) for (blob,) in self._arrived.get()]
            self._arrived.clear()
            return b"".join(blobs)
        found = self._sorted.getValue(slot)
        if found is None:
            return b""
        self._sorted.removeKey(slot)
        return bytes(found[0])

    def _put(self, sorted_out: dict[Slot | None, list[Waiting]]) -> bytes:
        """Has the rows wait in their slots; returns those that are decided."""
        decided = pack(sorted_out.pop(None, []))
        for slot, rows in sorted_out.items():
            assert slot is not None
            there = self._sorted.getValue(slot)
            before = b"" if there is None else bytes(there[0])
            self._sorted.updateValue(slot, (before + pack(rows),))
            self._handle.registerTimer(slot.fires_at_ms(self._lead_ms))
        return decided
