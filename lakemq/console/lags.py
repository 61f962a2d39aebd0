"""A group's lag over time, from the lake: what it had committed by when, and how far its queues were by then. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from lakemq.console.sql_rows import rows_by_name
from lakemq.model.errors import InvalidRequest
from lakemq.model.spark_sql import literal

BUCKETS = 60
TOPICS_MAX = 50
ROWS_MAX = 50_000
SPANS = (
    ("1h", "the last hour", 3_600_000),
    ("1d", "the last day", 86_400_000),
    ("1w", "the last week", 7 * 86_400_000),
)
"""A name in the address, what it is called, and how long."""

Queue = tuple[str, int]


class Times(NamedTuple):
    """A stretch of time, in buckets."""

    begin_ms: int
    width_ms: int

    @property
    def end_ms(self) -> int:
        """Where the last one ends."""
        return self.begin_ms + BUCKETS * self.width_ms

    def bucket(self, column: str) -> str:
        """The number of a time's bucket, in SQL."""
        return f"CAST(floor((unix_millis({column}) - {self.begin_ms:d}) / {self.width_ms:d}) AS INT)"


def times_of(span: str, now_ms: int) -> Times:
    """Raises `InvalidRequest`."""
    length = next((each[2] for each in SPANS if each[0] == span), None)
    if length is None:
        raise InvalidRequest(f"lag is one of {', '.join(each[0] for each in SPANS)}")
    width = length // BUCKETS
    return Times(now_ms - length, width)


def offsets_statement(broker: str, group: str, times: Times) -> str:
    """What the group had committed by the end of each bucket; all before the first is bucket -1."""
    bucket = f"greatest({times.bucket('committed_at')}, -1)"
    return (
        f"SELECT topic, queue_id, {bucket} AS bucket, max_by(offset, position) AS value\nFROM consumer_offsets\n"
        f"WHERE broker = {literal(broker)} AND `group` = {literal(group)}"
        f" AND committed_at < timestamp_millis({times.end_ms:d})\nGROUP BY 1, 2, 3"
    )


def ends_statement(broker: str, topics: Iterable[str], times: Times) -> str:
    """Where queues ended by the end of each bucket that has messages, and where they began in it."""
    return (
        f"SELECT topic, queue_id, {times.bucket('store_time')} AS bucket, max(queue_offset) + 1 AS value,"
        f" min(queue_offset) AS first\nFROM consume_queue\n"
        f"WHERE broker = {literal(broker)} AND topic IN ({', '.join(map(literal, topics))})"
        f" AND store_time >= timestamp_millis({times.begin_ms:d})"
        f" AND store_time < timestamp_millis({times.end_ms:d})\nGROUP BY 1, 2, 3"
    )


def rows_of(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of an answer, by name. Raises `InvalidRequest` where that is none."""
    return rows_by_name(answer, _offsets, "rows of offsets")


def _offsets(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] if name == "topic" else int(row[name]) for name in row}


def lag_over_time(
    offsets: Sequence[Mapping[str, Any]], ends: Sequence[Mapping[str, Any]], now: Mapping[Queue, int]
) -> list[int | None]:
    """How far the group was behind at the end of each bucket; None: it had committed nothing. `now`: where its queues
    end now, which is where those without messages in that time ended then."""
    committed = _by_queue(offsets)
    ended = _by_queue(ends)
    found: list[int | None] = [None] * BUCKETS
    for queue, values in committed.items():
        here = ended.get(queue, {})
        offset = values.get(-1, {}).get("value")
        end = here[min(here)]["first"] if here else now.get(queue)
        for at in range(BUCKETS):
            offset = values[at]["value"] if at in values else offset
            end = here[at]["value"] if at in here else end
            if offset is not None and end is not None:
                found[at] = (found[at] or 0) + max(end - offset, 0)
    return found


def _by_queue(rows: Sequence[Mapping[str, Any]]) -> dict[Queue, dict[int, Mapping[str, Any]]]:
    found: dict[Queue, dict[int, Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault((row["topic"], row["queue_id"]), {})[row["bucket"]] = row
    return found


def plot_of(lags: Sequence[int | None], times: Times) -> str:
    """As a chart has it: each value at the end of its bucket. Empty where there is none."""
    if all(each is None for each in lags):
        return ""
    ends = [(times.begin_ms + (at + 1) * times.width_ms) / 1000 for at in range(BUCKETS)]
    columns = [
        {"name": "time (UTC)", "kind": "time", "values": ends},
        {"name": "lag", "kind": "number", "values": list(lags)},
    ]
    return json.dumps(columns)
