"""All rules over one history."""

from __future__ import annotations

from lakemq.testing.history.finding import Finding
from lakemq.testing.history.groups import find_offsets_ahead, find_offsets_back, find_two_owners
from lakemq.testing.history.lake import find_lake_differences
from lakemq.testing.history.lost import find_lost
from lakemq.testing.history.operation import History
from lakemq.testing.history.order import find_disorder, find_gaps
from lakemq.testing.history.receipts import find_wrong_receipts
from lakemq.testing.history.retries import find_lost_retries, find_wrong_attempts
from lakemq.testing.history.sightings import Sightings
from lakemq.testing.history.stored import find_double, find_false_rows, find_two_meanings
from lakemq.testing.history.waits import find_early, find_early_halves, find_lost_delays, find_lost_halves

RULES = (
    find_false_rows,
    find_two_meanings,
    find_double,
    find_lost,
    find_disorder,
    find_gaps,
    find_early_halves,
    find_early,
    find_lost_delays,
    find_lost_halves,
    find_wrong_attempts,
    find_lost_retries,
    find_wrong_receipts,
    find_offsets_back,
    find_offsets_ahead,
    find_two_owners,
    find_lake_differences,
)


def check(history: History) -> list[Finding]:
    """Everything in the history that breaks a promise; none for the history of a sound broker.

    What was lost can only be told from a `scan` at the end, what the lake lacks from a `lake` after it.
    """
    sightings = Sightings(history)
    return [finding for rule in RULES for finding in rule(sightings)]
