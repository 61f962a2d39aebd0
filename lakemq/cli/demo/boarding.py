"""Boarding calls: each flight's is scheduled for its departure on a clock that is sped up.

A flight that was cancelled has its call recalled before it is due.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import orjson
import pyarrow as pa

from lakemq.client.http import HttpClient
from lakemq.model.message import Draft
from lakemq.storage.disk.clock import Clock, SystemClock

TOPIC = "boarding"
CALLS_MAX = 200
HOUR_MS = 1_500
"""An hour of 2013 on the sped-up clock."""
LEAD_MS = 5_000
"""The first departure is so long after the calls were scheduled: a slow machine recalls some in time, too."""
WAIT_MS = 1_000
PATIENCE_MS = 60_000


@dataclass
class Boarding:
    """What was scheduled, and what a consumer saw of it. Times in ms."""

    scheduled: int = 0
    recalled: int = 0
    called: list[int] = field(default_factory=list[int])
    """The flights' numbers in the replay, in the order of their calls."""
    recalled_calls: int = 0
    early: int = 0
    out_of_time_order: int = 0
    late_ms_max: int = 0
    """From when a call was due until the consumer had it."""


def board(url: str, flights: pa.Table) -> Boarding:
    """Schedule the calls of the first flights, recall some, and hear the others when they are due."""
    clock = SystemClock()
    rows = flights.slice(0, CALLS_MAX).to_pylist()
    seen = Boarding(scheduled=len(rows))
    with HttpClient(url) as client:
        client.create_topic(TOPIC, 1)
        start_ms = clock.now_ms() + LEAD_MS
        receipts = client.produce(TOPIC, [_call(row, _departure_ms(row, rows[0], start_ms)) for row in rows])
        cancelled = {row["sequence"] for row in rows if row["dep_delay"] is None} | {rows[-1]["sequence"]}
        for row, receipt in zip(rows, receipts, strict=True):
            if row["sequence"] in cancelled:
                client.recall(receipt.message_id)
        seen.recalled = len(cancelled)
        _hear(client, seen, cancelled, clock, _departure_ms(rows[-1], rows[0], start_ms))
    return seen


def _hear(client: HttpClient, seen: Boarding, cancelled: set[int], clock: Clock, last_ms: int) -> None:
    """Consume the calls until all that were not recalled are there, and all are due."""
    expected, offset, before_ms = seen.scheduled - seen.recalled, 0, 0
    while len(seen.called) < expected or clock.now_ms() <= last_ms:
        pulled = client.pull(TOPIC, 0, offset, CALLS_MAX, WAIT_MS)
        now_ms = clock.now_ms()
        for message in pulled.messages:
            due_ms = message.deliver_at_ms or 0
            sequence = orjson.loads(message.body)["sequence"]
            seen.called.append(sequence)
            seen.recalled_calls += sequence in cancelled
            seen.early += min(now_ms, message.store_time_ms) < due_ms
            seen.out_of_time_order += due_ms < before_ms
            seen.late_ms_max = max(seen.late_ms_max, now_ms - due_ms)
            before_ms = due_ms
        offset = pulled.next_offset
        if now_ms > last_ms + PATIENCE_MS:
            return


def _call(row: dict[str, Any], departure_ms: int) -> Draft:
    call = {"sequence": row["sequence"], "call": f"{row['carrier']}{row['flight']} to {row['dest']} is boarding"}
    return Draft(orjson.dumps(call), tag=row["carrier"], deliver_at_ms=departure_ms)


def _departure_ms(row: dict[str, Any], first: dict[str, Any], start_ms: int) -> int:
    """When the flight departs by the sped-up clock, on which `first` departs at `start_ms`."""
    passed = row["time_hour"] - first["time_hour"] + timedelta(minutes=row["minute"] - first["minute"])
    return start_ms + round(passed / timedelta(hours=1) * HOUR_MS)
