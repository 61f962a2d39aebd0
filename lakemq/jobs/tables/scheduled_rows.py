"""What rows of the log make of the table `scheduled`: rows that begin, and ends of rows that are there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute

from lakemq.model.names import DECISION_TOPIC, SCHEDULE_TOPIC

pc: Any = pyarrow.compute  # its functions are made at run time, unknown to type checkers

WAITING, DELIVERED, RECALLED, MOVED, DROPPED = "waiting", "delivered", "recalled", "moved", "dropped"
"""The states W (and D, until it is delivered), V, R, M and L."""

END = "end_state"
"""A column of changes: the state in which the row's cause ends; null: it ends none."""


def changes(log: pa.RecordBatch) -> pa.RecordBatch:
    """The rows of the log that begin or end a row of the table (or, as a moved one, both), with `END`."""
    ends = _end_states(log)
    changed = pc.or_(_is_scheduled(log), pc.is_valid(ends))
    return log.append_column(END, ends).filter(changed)


def ended_dues_ms(changed: pa.Table) -> list[int | None]:
    """When those were due that the changes end, in ms since 1970; null: not known."""
    dues = changed.filter(pc.is_valid(changed[END]))["deliver_at"]
    return dues.cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).to_pylist()


def begun(changed: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows that begin, with the columns of the table's `schema`: all of them wait."""
    rows = changed.filter(_is_scheduled(changed))
    count = rows.num_rows
    is_retry = pc.is_valid(rows["retry_topic"])
    computed = {
        "topic": rows["real_topic"],
        "queue_id": rows["real_queue_id"],
        "due": rows["deliver_at"],
        "scheduled_at": rows["store_time"],
        "kind": pc.if_else(is_retry, "retry", "delay"),
        "state": pa.repeat(pa.scalar(WAITING), count),
    }
    for name in ("ended_at", "ended_date", "delivered_message_id"):
        computed[name] = pa.nulls(count, schema.field(name).type)
    columns = [computed[field.name] if field.name in computed else rows[field.name] for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


class Ends:
    """The ends in changes, to be given to rows of the table."""

    def __init__(self, changed: pa.Table) -> None:
        ends = changed.filter(pc.is_valid(changed[END])).combine_chunks()
        has_copy = pc.is_in(ends[END], pa.array([DELIVERED, MOVED]))
        copies = pc.if_else(has_copy, ends["message_id"], pa.nulls(ends.num_rows, pa.string()))
        self._values: Mapping[str, pa.ChunkedArray] = {
            "state": ends[END],
            "ended_at": ends["store_time"],
            "ended_date": ends["store_time"].cast(pa.date32()),
            "delivered_message_id": copies,
        }
        self._brokers, self._causes = ends["broker"], ends["cause"]

    def give_to(self, rows: pa.Table) -> pa.Table:
        """The rows, those that are ended with their ends."""
        at = self._found(rows)
        for name, values in self._values.items():
            column = rows.schema.get_field_index(name)
            given = pc.coalesce(values.take(at), rows.column(column))
            rows = rows.set_column(column, rows.schema.field(column), given)
        return rows

    def _found(self, rows: pa.Table) -> pa.ChunkedArray:
        """For each row, which end is its own; null: none."""
        found: Any = pa.nulls(rows.num_rows, pa.int32())
        for broker in self._brokers.unique().to_pylist():
            # Ends of other brokers are null here, which no position is.
            causes = pc.if_else(pc.equal(self._brokers, broker), self._causes, pa.scalar(None, pa.int64()))
            at = pc.index_in(rows["position"], causes.combine_chunks(), skip_nulls=True)
            found = pc.coalesce(found, pc.if_else(pc.equal(rows["broker"], broker), at, pa.scalar(None, pa.int32())))
        return found


def _is_scheduled(rows: pa.RecordBatch | pa.Table) -> pa.Array:
    return pc.equal(rows.column("topic"), SCHEDULE_TOPIC)


def _end_states(log: pa.RecordBatch) -> pa.Array:
    """What the row that it caused made of a scheduled message; null: the row is no such effect."""
    topic, tag = log.column("topic"), log.column("tag")
    is_decision = pc.equal(topic, DECISION_TOPIC)
    is_drop = pc.fill_null(pc.equal(tag, "drop"), False)
    is_recall = pc.fill_null(pc.equal(tag, "recall"), False)
    # Of a message that damage took, nobody knows when it was due.
    is_effect = pc.or_(pc.is_valid(log.column("deliver_at")), pc.and_(is_decision, is_drop))
    is_effect = pc.and_(pc.is_valid(log.column("cause")), is_effect)
    nothing = pa.scalar(None, pa.string())
    by_decision = pc.if_else(is_recall, RECALLED, pc.if_else(is_drop, DROPPED, nothing))
    otherwise = pc.if_else(_is_scheduled(log), MOVED, DELIVERED)
    return pc.if_else(is_effect, pc.if_else(is_decision, by_decision, otherwise), nothing)
