"""Whether a lake's tables are of the log that they are to belong together with."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lakemq.storage.backup.manifest import BadBackup
from lakemq.storage.lake.progress import read_progress


def check_same_log(tables: Iterable[Path], broker: str, log_id: str, what_to_do: str) -> None:
    """Raise `BadBackup` where a table holds another log of that broker: positions of one name other messages in the
    other. A table that doesn't say which log it holds is taken."""
    for table in tables:
        progress = read_progress(table)
        held = progress.log_id(broker)
        if broker in progress.held and held not in ("", log_id):
            raise BadBackup(f"{table} holds another log of {broker}, {held}, and not {log_id}: {what_to_do}")
