"""Which log a table's rows of a broker are of, as a table says it itself: by its transaction identifiers.

`lakemq-lake-{broker}` is how far the table holds that broker's log, `lakemq-log-{broker}/{log id}` that the log is
that one; of several the last counts, by its version, and one that was
followed by another has a negative version. A log that took another's place is never mistaken for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from lakemq.storage.disk.files import Files
from lakemq.storage.lake.delta_log import FOLDER, OF_LOG, entries_of
from lakemq.storage.lake.object_files import files_of


class LogMark(NamedTuple):
    """The log's id, and how many came before it."""

    number: int
    log_id: str


def logs_of(identifiers: Mapping[str, int]) -> dict[str, LogMark]:
    """By broker, the log that the table's rows are of."""
    found: dict[str, LogMark] = {}
    for name, number in identifiers.items():
        if name.startswith(OF_LOG) and number > 0:
            broker, _, log_id = name.removeprefix(OF_LOG).rpartition("/")
            if broker not in found or number > found[broker].number:
                found[broker] = LogMark(number, log_id)
    return found


def log_identifier(broker: str, log_id: str) -> str:
    """The identifier that says so."""
    return f"{OF_LOG}{broker}/{log_id}"


def replaced(broker: str, before: LogMark, log_id: str) -> dict[str, int]:
    """The identifiers by which another log follows that one."""
    return {log_identifier(broker, before.log_id): -1, log_identifier(broker, log_id): before.number + 1}


def append_identifiers(
    table: Path, identifiers: Mapping[str, int], files: Files | None = None, read: int | None = None
) -> None:
    """Add an entry to the table's log that sets identifiers and nothing else; on disk on return. `read`: the version
    that the caller has looked at, whose follower it has to be. Raises `OSError`, `FileExistsError` when somebody else
    came first."""
    files = files or files_of(table)
    version = (max(entries_of(table)) if read is None else read) + 1
    info = {"commitInfo": {"operation": "SET IDENTIFIERS", "operationParameters": {}, "engineInfo": "lakemq"}}
    actions = [info, *({"txn": {"appId": name, "version": number}} for name, number in identifiers.items())]
    content = b"".join(json.dumps(action).encode() + b"\n" for action in actions)
    entry = table / FOLDER / f"{version:020}.json"
    if not files.create(entry, content):
        raise FileExistsError(f"{entry} is there")
