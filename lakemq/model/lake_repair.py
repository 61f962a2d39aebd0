"""What becomes of a table of the lake whose last entries a power cut may have torn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from lakemq.model.topic_table import PREFIX

RUNS = "maintenance_runs"
STATS = "lake_stats"
HOLES = "log_holes"

WHOEVER = "whichever brokers what is torn was of"


class Found(NamedTuple):
    """An entry of a table's log that is there, and what is wrong with it or with the files that it adds."""

    version: int
    fault: str | None = None


class Undo(NamedTuple):
    """From `version` on the table is put back; `why` is the first fault."""

    version: int
    why: str


class Source(Enum):
    """Where the rows of a table come from, and so what can write them again."""

    LOGS = "the brokers' logs"
    LAKE = "another table of the lake"
    JOBS = "the jobs' own work"
    """Nothing writes them again. They say what the jobs have done or found, and no message is among them."""


def source_of(table: str) -> Source:
    """By the table's name."""
    if table in (RUNS, STATS, HOLES):
        return Source.JOBS
    return Source.LAKE if table.startswith(PREFIX) else Source.LOGS


def what_to_undo(expected: int, found: Sequence[Found], distrusted: int | None = None) -> Undo | None:
    """The first version that can't stay, and with it all that come after: one that is damaged, that a failed
    sync concerned, or that follows a gap. None: all of them are sound.

    `found` ascends; `expected` is the version that must come first: after the last one that is known to be sound.
    """
    for each in found:
        if each.version != expected:
            return Undo(expected, f"version {expected} is missing")
        if each.fault is not None:
            return Undo(each.version, each.fault)
        if distrusted is not None and each.version >= distrusted:
            return Undo(each.version, "it could not be brought to disk")
        expected += 1
    return None


def lost_by_undoing(left: Mapping[str, int], undone: Iterable[str | None], log_begins: Mapping[str, int]) -> list[str]:
    """Whose messages neither the table nor a log would hold, by application (a transaction identifier).

    `left` is how far the table would hold them (below 0: nothing of them), `undone` whose progress goes back (None:
    nobody can read whose), `log_begins` where the logs begin that can be asked. Whose log can't be asked counts as
    lost, and what nobody can read where no log can.
    """
    names = set(undone)
    lost = {application for application in names if application is not None and application not in log_begins}
    if None in names and not log_begins:
        lost.add(WHOEVER)
    lost |= {application for application, begin in log_begins.items() if max(left.get(application, 0), 0) < begin}
    return sorted(lost)
