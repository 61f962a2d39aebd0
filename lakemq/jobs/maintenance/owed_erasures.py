"""Logs that an erasure could not ask, as their brokers were away: an erasure after their return erases there what it
finds no more in the lake. Which positions these are, `log_holes` says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

from lakemq.jobs.log_client import LogClient
from lakemq.jobs.maintenance.requests import FOLDER
from lakemq.jobs.maintenance.work import Work
from lakemq.jobs.tables.holes import ERASED, Hole, read_holes
from lakemq.storage.lake.object_files import files_of

LOG_CHUNK = 100_000
"""Positions in a request to a broker."""
_OWED = "erasures_owed.json"


def owed(lake: Path) -> dict[str, str]:
    """The id of the log that is still to be asked, by broker. Raises `OSError`; `ValueError` where it is damaged."""
    try:
        content: Any = json.loads((lake / FOLDER / _OWED).read_bytes())
    except FileNotFoundError:
        return {}
    return {str(broker): str(log_id) for broker, log_id in content.items()}


def owe(lake: Path, logs: Mapping[str, str]) -> None:
    """These are to be asked too, by broker the id of its log. On disk on return; to be called before the rows go that
    the same condition would find them by."""
    before = owed(lake)
    if not logs.items() <= before.items():
        _write(lake, before | dict(logs))


def erase_owed(work: Work) -> dict[str, int]:
    """Asks those whose brokers are there again; how many messages each log held and now doesn't."""
    left, erased = owed(work.lake), dict[str, int]()
    for address in work.broker_url.split(",") if left else ():
        with closing(LogClient(address)) as client:
            end = client.end()
            log_id = left.pop(end.broker, None)
            if log_id is None:
                continue
            if log_id == end.log_id:  # else positions mean other messages, and that log is gone
                within = Hole(end.begin_position, client.end_of_log() - 1)
                positions = _positions(read_holes(work.lake, end.broker, ERASED), within)
                erased[end.broker] = 0
                while chunk := list(islice(positions, LOG_CHUNK)):
                    work.check()
                    erased[end.broker] += client.erase(chunk)
        _write(work.lake, left)
    return erased


def _positions(holes: list[Hole], within: Hole) -> Iterator[int]:
    """In order, each once."""
    due = within.first
    for hole in sorted(holes):
        last = min(hole.last, within.last)
        yield from range(max(hole.first, due), last + 1)
        due = max(due, last + 1)


def _write(lake: Path, logs: Mapping[str, str]) -> None:
    file = lake / FOLDER / _OWED
    files = files_of(file)
    files.make_dirs(file.parent)
    files.replace(file, [json.dumps(logs).encode()])
    files.sync_above(file)
