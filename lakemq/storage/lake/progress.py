"""How far a Delta table holds each broker's log, read from the files of the table's own log.

Delta can tell too, but rebuilds the whole state of the table to do so: a Spark job for each look.
Here only the transaction identifiers are read: of the last checkpoint, and of the commits since.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow.parquet as pq

from lakemq.objects.path import opened
from lakemq.storage.lake.delta_log import APPLICATION, OURS, entry_of, files_of_log, read_entry
from lakemq.storage.lake.log_marks import LogMark, logs_of

_FOLLOWED_MAX = 200
_CHECKPOINT = re.compile(r"\d{20}\.checkpoint\.parquet")
"""In one file, as Delta writes it unless told to part it; it appears whole or not at all."""


@dataclass(frozen=True)
class Progress:
    """What a version of the table holds: below these positions, everything of these brokers; and which logs of
    theirs."""

    version: int
    held: dict[str, int]
    logs: dict[str, LogMark] = field(default_factory=dict[str, LogMark])

    def log_id(self, broker: str) -> str:
        """The id of the broker's log; empty where the table doesn't say."""
        mark = self.logs.get(broker)
        return "" if mark is None else mark.log_id


def read_progress(table: Path, version: int | None = None) -> Progress:
    """The progress as of that version of the table, or the last; version -1: there is no table. Raises
    `TornEntry`, `OSError`."""
    last, identifiers = read_identifiers(table, version)
    held = {name: position for name, position in identifiers.items() if name.startswith(APPLICATION) and position >= 0}
    by_broker = {name.removeprefix(APPLICATION): position for name, position in held.items()}
    return Progress(last, by_broker, logs_of(identifiers))


def advance(table: Path, known: Progress, version: int) -> Progress:
    """As `read_progress` of that version; where `known` was not long before, only the entries since are read."""
    if known.version < 0 or not known.version < version <= known.version + _FOLLOWED_MAX:
        return read_progress(table, version)
    try:
        since = [read_entry(table, at, entry_of(table, at)) for at in range(known.version + 1, version + 1)]
    except FileNotFoundError:
        return read_progress(table, version)
    if any(entry.held for entry in since):
        return read_progress(table, version)
    return replace(known, version=version)


def read_identifiers(table: Path, version: int | None = None) -> tuple[int, dict[str, int]]:
    """The same as the table has it: its version, and our transaction identifiers."""
    all_entries, beside = files_of_log(table)
    entries = {at: path for at, path in all_entries.items() if version is None or at <= version}
    last = max(entries, default=-1)
    checkpoints = {
        each.version: each.path for each in beside if each.version <= last and _CHECKPOINT.fullmatch(each.path.name)
    }
    start = max(checkpoints, default=-1)
    held = _of_checkpoint(checkpoints[start]) if checkpoints else {}
    for at, path in entries.items():
        if at > start:
            held |= read_entry(table, at, path).held
    return last, held


def _of_checkpoint(file: Path) -> dict[str, int]:
    column = pq.read_table(opened(file), columns=["txn"])["txn"].to_pylist()
    return {
        each["appId"]: each["version"]
        for each in column
        if each is not None and each["appId"] is not None and each["appId"].startswith(OURS)
    }
