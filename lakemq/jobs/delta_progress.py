"""How far a Delta table holds each broker's log, read from the files of the table's own log.

Delta can tell too, but rebuilds the whole state of the table to do so: a Spark job for each look.
Here only the transaction identifiers are read: of the last checkpoint, and of the commits since.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

APPLICATION = "lakemq-lake-"
"""A transaction identifier's application is this and the broker's name, its version a position."""

_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint\.parquet")
"""In one file, as Delta writes it unless told to part it; it appears whole or not at all."""


@dataclass(frozen=True)
class Progress:
    """What a version of the table holds: below these positions, everything of these brokers."""

    version: int
    held: dict[str, int]


def read_progress(table: Path, version: int | None = None) -> Progress:
    """The progress as of that version of the table, or the last; version -1: there is no table."""
    log = table / "_delta_log"
    commits = {at: name for at, name in _numbered(log, _COMMIT) if version is None or at <= version}
    last = max(commits, default=-1)
    checkpoints = {at: name for at, name in _numbered(log, _CHECKPOINT) if at <= last}
    start = max(checkpoints, default=-1)
    held = _of_checkpoint(log / checkpoints[start]) if checkpoints else {}
    for at in sorted(commits):
        if at > start:
            held |= _of_commit(log / commits[at])
    return Progress(last, held)


def _numbered(log: Path, form: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    if log.is_dir():
        for file in log.iterdir():
            found = form.fullmatch(file.name)
            if found is not None:
                yield int(found.group(1)), file.name


def _of_checkpoint(file: Path) -> dict[str, int]:
    column = pq.read_table(file, columns=["txn"])["txn"].to_pylist()
    return _ours((each["appId"], each["version"]) for each in column if each is not None)


def _of_commit(file: Path) -> dict[str, int]:
    with file.open(encoding="utf-8") as lines:
        found = [json.loads(line)["txn"] for line in lines if line.startswith('{"txn"')]
    return _ours((each["appId"], each["version"]) for each in found)


def _ours(identifiers: Iterator[tuple[str | None, int]]) -> dict[str, int]:
    return {
        name.removeprefix(APPLICATION): version
        for name, version in identifiers
        if name is not None and name.startswith(APPLICATION)
    }
