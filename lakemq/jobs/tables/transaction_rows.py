"""The events of transactions that rows of the log tell of, column by column."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute

from lakemq.model.ids import NONCE_PATTERN
from lakemq.model.names import (
    CHECK_MAX_TOPIC,
    DECISION_TOPIC,
    HALF_TOPIC,
    OP_TOPIC,
    SCHEDULE_TOPIC,
    SYSTEM_PREFIXES,
)

pc: Any = pyarrow.compute  # its functions are made at run time, unknown to type checkers

HALF, CHECKED, COMMITTED, ROLLED_BACK, GIVEN_UP = "half", "checked", "committed", "rolled_back", "given_up"
"""The states H, K, C, B and X."""

OF_PRODUCER = ("half", "commit", "rollback", "unknown")
"""The events that a producer group tells; the others are the broker's."""

STATES = {
    "half": HALF,
    "check": CHECKED,
    "committed": COMMITTED,
    "rolled_back": ROLLED_BACK,
    "dropped": COMMITTED,
    "give_up": GIVEN_UP,
}
"""What a transaction is after an event; after any other, what it was. (A rollback that the gateway carries out at
once is one event, and its end.)"""


def transaction_events(log: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of `transactions`, of the rows that tell of one."""
    events = _events(log)
    rows = log.append_column("event", events).filter(pc.is_valid(events))
    event, topic = rows.column("event"), rows.column("topic")
    is_copy = pc.equal(event, "committed")
    nothing = pa.nulls(rows.num_rows, pa.string())
    transaction = pc.coalesce(rows.column("transaction_id"), rows.column("message_id"))
    by_producer = pc.is_in(event, pa.array(OF_PRODUCER))
    columns = {
        # The id of its first half: its own, without the nonce that is its producer's alone.
        "transaction_id": pc.replace_substring_regex(transaction, f"{NONCE_PATTERN}$", ""),
        "event": event,
        "by": pc.if_else(by_producer, "producer", "broker"),
        "event_time": rows.column("store_time"),
        "producer_group": rows.column("group"),
        "topic": pc.if_else(is_copy, topic, rows.column("real_topic")),
        "check_times": rows.column("check_times"),
        "state": _states(rows),
        "message_id": pc.if_else(is_copy, rows.column("message_id"), nothing),
        "broker": rows.column("broker"),
        "position": rows.column("position"),
    }
    return pa.RecordBatch.from_pydict(columns)


def _events(log: pa.RecordBatch) -> pa.Array:
    """What each row tells of its transaction; null: nothing."""
    topic, tag = log.column("topic"), log.column("tag")
    of_transaction = pc.is_valid(log.column("transaction_id"))
    is_effect = pc.and_(of_transaction, pc.is_valid(log.column("cause")))
    is_drop = pc.fill_null(pc.equal(tag, "drop"), False)
    cases = [
        (pc.equal(topic, HALF_TOPIC), pc.if_else(of_transaction, "check", "half")),
        (pc.equal(topic, OP_TOPIC), tag),
        (pc.equal(topic, CHECK_MAX_TOPIC), pa.scalar("give_up")),
        (pc.and_(pc.equal(topic, DECISION_TOPIC), of_transaction), pc.if_else(is_drop, "dropped", "rolled_back")),
        (pc.and_(is_effect, pc.invert(_is_system(topic))), pa.scalar("committed")),
    ]
    conditions = pc.make_struct(*(condition for condition, _ in cases))
    return pc.case_when(conditions, *(value for _, value in cases))


def _is_system(topic: pa.Array) -> pa.Array:
    """As `lakemq.model.names.is_system`: a retry of a committed message is no event of its own."""
    prefixed = [pc.starts_with(topic, prefix) for prefix in SYSTEM_PREFIXES]
    return reduce(pc.or_, prefixed, pc.equal(topic, SCHEDULE_TOPIC))


def _states(rows: pa.RecordBatch) -> pa.Array:
    event = rows.column("event")
    after = pa.array([*STATES.values(), None], pa.string())
    known = pc.fill_null(pc.index_in(event, pa.array(list(STATES))), len(STATES))
    anticipated = pc.and_(pc.equal(event, "rollback"), pc.is_valid(rows.column("cause")))
    return pc.if_else(anticipated, ROLLED_BACK, after.take(known))
