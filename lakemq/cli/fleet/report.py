"""What a fleet's replay is checked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakemq.cli.demo.report import Check
from lakemq.cli.fleet.traffic import Heard
from lakemq.cli.fleet.waiting import ALARMS, BOOKINGS, COMMITTED, COMMITTED_BEFORE, DELAYED, ROLLED_BACK, Waited

if TYPE_CHECKING:
    from lakemq.cli.demo.history import History

ORDER = """
SELECT count(*) AS out_of_order FROM (
  SELECT sequence, lag(sequence) OVER (PARTITION BY tail, broker, queue_id ORDER BY queue_offset) AS before
  FROM flights WHERE tail IS NOT NULL
) WHERE sequence <= before
"""
WAITED = f"""
SELECT topic, count(*) AS stored, count(DISTINCT decode(body, 'UTF-8')) AS bodies
FROM messages WHERE topic IN ('{ALARMS}', '{BOOKINGS}') GROUP BY topic
"""  # noqa: S608  (no input in it)
DELIVERED = f"""
SELECT count(*) AS delivered FROM scheduled WHERE topic = '{ALARMS}' AND kind = 'delay' AND state = 'delivered'
"""  # noqa: S608  (no input in it)
ENDED = """
SELECT count_if(event = 'committed') AS committed, count_if(event = 'rollback') AS rolled_back FROM transactions
"""


def split_tails(joined: int) -> str:
    """Aircraft whose flights lie in several queues, counted apart before the flight of that number, from which on there
    are more brokers, and from it on."""
    return f"""
SELECT count(*) AS split_tails FROM (
  SELECT tail, sequence >= {joined} AS later FROM flights WHERE tail IS NOT NULL
  GROUP BY tail, sequence >= {joined} HAVING count(DISTINCT broker, queue_id) > 1
)
"""  # noqa: S608  (a number)


@dataclass(frozen=True)
class Stored:
    """What the lake has."""

    rows: int
    flights: int
    brokers: int
    out_of_order: int
    split_tails: int
    waited: dict[str, tuple[int, int]]
    """Messages, and different ones, by topic."""
    delivered: int
    committed: int
    rolled_back: int


def stored(history: History, joined: int) -> Stored:
    """Ask the lake."""
    (rows,) = history.rows(
        "SELECT count(*) AS stored, count(DISTINCT sequence) AS flights, count(DISTINCT broker) AS brokers FROM flights"
    )
    (order,) = history.rows(ORDER)
    (split,) = history.rows(split_tails(joined))
    (delivered,) = history.rows(DELIVERED)
    (ended,) = history.rows(ENDED)
    return Stored(
        rows["stored"],
        rows["flights"],
        rows["brokers"],
        order["out_of_order"],
        split["split_tails"],
        {row["topic"]: (row["stored"], row["bodies"]) for row in history.rows(WAITED)},
        delivered["delivered"],
        ended["committed"],
        ended["rolled_back"],
    )


def flight_checks(produced: int, heard: Heard, expected: int) -> list[Check]:
    """Produced = consumed, each once, and in order for each aircraft."""
    return [
        Check("produced", f"{produced:,}", produced == expected),
        Check("consumed, each flight counted once", f"{heard.count:,}", heard.count == expected),
        Check("consumed: in order by aircraft", f"{heard.out_of_order:,} out of order", heard.out_of_order == 0),
    ]


def stored_flight_checks(found: Stored, expected: int, brokers: int) -> list[Check]:
    """The same of the rows in Delta."""
    disorder = (found.out_of_order, found.split_tails)
    return [
        Check("rows in Delta", f"{found.rows:,}", found.rows == expected),
        Check("Delta: each flight once", f"{found.flights:,}", found.flights == expected),
        Check(
            "Delta: in order by aircraft",
            "{:,} out of order, {:,} aircraft split".format(*disorder),
            disorder == (0, 0),
        ),
        Check("Delta: brokers with flights", f"{found.brokers}", found.brokers == brokers),
    ]


def waited_checks(waited: Waited) -> list[Check]:
    """What waited in the broker whose leader was killed: each once, none early."""
    return [
        Check("alarms: each once", f"{waited.alarms.total():,}", waited.alarms_are_once),
        Check("alarms: none early", f"{waited.early:,}; {waited.late_ms_max:,} ms late at most", not waited.early),
        Check("bookings: those committed, each once", f"{waited.bookings.total():,}", waited.bookings_are_once),
    ]


def stored_waited_checks(found: Stored) -> list[Check]:
    """The same of the tables."""
    committed = COMMITTED_BEFORE + COMMITTED
    alarms, bookings = found.waited.get(ALARMS, (0, 0)), found.waited.get(BOOKINGS, (0, 0))
    ended = (found.committed, found.rolled_back)
    return [
        Check("Delta: alarms", "{:,}, {:,} different".format(*alarms), alarms == (DELAYED, DELAYED)),
        Check("Delta: bookings", "{:,}, {:,} different".format(*bookings), bookings == (committed, committed)),
        Check("Delta: alarms delivered", f"{found.delivered:,}", found.delivered == DELAYED),
        Check("Delta: bookings committed, rolled back", "{:,}, {:,}".format(*ended), ended == (committed, ROLLED_BACK)),
    ]
