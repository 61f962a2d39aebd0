"""The demo's SQL. `flights` is a view of the lake's table `messages`: the bodies, read as JSON."""

from __future__ import annotations

from dataclasses import dataclass

TOPIC = "flights"

VIEW = f"""
CREATE OR REPLACE TEMPORARY VIEW flights AS
SELECT broker, queue_id, queue_offset, ordering_key AS tail, tag AS carrier, flight.*
FROM (
  SELECT broker, queue_id, queue_offset, ordering_key, tag,
         from_json(decode(body, 'UTF-8'),
                   'sequence BIGINT, month INT, day INT, flight INT, origin STRING, dest STRING,
                    sched_dep_time INT, dep_delay DOUBLE, arr_delay DOUBLE') AS flight
  FROM messages WHERE topic = '{TOPIC}'
)
"""  # noqa: S608  (no input in it)

ROWS = """
SELECT count(*) AS stored, count(DISTINCT sequence) AS flights,
       count(DISTINCT queue_id, queue_offset) AS offsets
FROM flights
"""

OUT_OF_ORDER = """
SELECT count(*) AS out_of_order FROM (
  SELECT sequence,
         lag(sequence) OVER (PARTITION BY tail ORDER BY queue_id, queue_offset) AS before
  FROM flights WHERE tail IS NOT NULL
) WHERE sequence <= before
"""

SPLIT_TAILS = """
SELECT count(*) AS split_tails FROM (
  SELECT tail FROM flights WHERE tail IS NOT NULL GROUP BY tail HAVING count(DISTINCT queue_id) > 1
)
"""

BY_CARRIER = """
SELECT carrier, avg(dep_delay) AS minutes FROM flights
WHERE dep_delay IS NOT NULL GROUP BY carrier ORDER BY minutes DESC
"""

BY_MONTH = """
SELECT month, avg(dep_delay) AS minutes FROM flights
WHERE dep_delay IS NOT NULL GROUP BY month ORDER BY month
"""

BUSIEST = """
SELECT tail, month, day, count(*) AS legs FROM flights
WHERE tail IS NOT NULL GROUP BY tail, month, day ORDER BY legs DESC, month, day, tail LIMIT 1
"""


SCHEDULED = """
SELECT topic, kind, state, count(*) AS count,
       max(CASE WHEN state = 'delivered' THEN unix_millis(ended_at) - unix_millis(due) END) AS late_ms_max
FROM scheduled GROUP BY topic, kind, state ORDER BY kind, topic, state
"""

EXAMPLE = (
    "SELECT tag AS carrier, count(*) AS flights, avg(body_json(body):dep_delay::double) AS minutes"
    " FROM messages WHERE topic = 'flights' GROUP BY tag ORDER BY minutes DESC"
)


def transaction_history(transaction_id: str) -> str:
    """What happened to one transaction, in the order of the log."""
    if not transaction_id.replace(".", "").replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"{transaction_id!r} is no transaction id")
    return f"""
SELECT event, `by`, event_time, state, check_times
FROM transactions WHERE transaction_id = half_of('{transaction_id}') ORDER BY position
"""  # noqa: S608  (checked above)


@dataclass(frozen=True)
class Leg:
    """One flight of an aircraft's day."""

    sched_dep_time: int
    carrier: str
    flight: int
    origin: str
    dest: str
    dep_delay: float | None


def aircraft_day(tail: str, month: int, day: int) -> str:
    """The flights of one aircraft on one day of 2013, found by its key.

    `message_index` says where the key's messages are; only those positions of `messages` are
    read.
    """
    if not tail.isalnum():
        raise ValueError(f"{tail!r} is no tail number")
    return f"""
SELECT leg.sched_dep_time, carrier, leg.flight, leg.origin, leg.dest, leg.dep_delay FROM (
  SELECT m.tag AS carrier, m.queue_offset,
         from_json(decode(m.body, 'UTF-8'),
                   'month INT, day INT, flight INT, origin STRING, dest STRING,
                    sched_dep_time INT, dep_delay DOUBLE') AS leg
  FROM message_index i JOIN messages m ON m.broker = i.broker AND m.position = i.position
  WHERE i.topic = '{TOPIC}' AND i.key = '{tail}' AND m.topic = '{TOPIC}'
)
WHERE leg.month = {month} AND leg.day = {day}
ORDER BY queue_offset
"""  # noqa: S608  (checked above)
