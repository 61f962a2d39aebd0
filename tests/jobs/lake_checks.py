"""What every test of the lake asks of its tables, read by a reader that is not Spark."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from deltalake import DeltaTable

from lakemq.jobs.tables.new_file import NewFile

IDENTITY = ("broker", "topic", "queue_id", "queue_offset")
WAIT_S_MAX = 400


def rows_of(lake: Path, table: str, columns: list[str]) -> list[tuple[Any, ...]]:
    """The table's rows, sorted."""
    found = DeltaTable(str(lake / table)).to_pyarrow_dataset().to_table(columns=columns)
    return sorted(zip(*(found[name].to_pylist() for name in columns), strict=True))


class Seen:
    """A table's rows, sorted, read again only as there are other versions of it: for who looks again and again, and
    would take processor time from who writes it."""

    def __init__(self, lake: Path, table: str, columns: list[str]) -> None:
        self._where, self._columns = (lake, table), columns
        self._entries: set[str] = set()
        self._rows: list[tuple[Any, ...]] = []

    def rows(self) -> list[tuple[Any, ...]]:
        lake, table = self._where
        entries = {each.name for each in (lake / table / "_delta_log").glob("0*.json")}
        if entries != self._entries:
            self._rows, self._entries = rows_of(lake, table, self._columns), entries
        return self._rows


def write_file(table: Path, rows: pa.Table) -> list[str]:
    """A file with those rows, as `DeltaWriter.append` takes it."""
    with NewFile(table, rows.schema, ()) as file:
        for batch in rows.to_batches():
            file.write(batch)
        return [file.close()]


def check_once_in_each_table(lake: Path, messages: set[tuple[Any, ...]], note: str = "") -> None:
    """`messages`: (broker, topic, queue_id, queue_offset, position, key) of all that was produced;
    what else is in the log is the system's, and is not looked at."""
    topics = {message[1] for message in messages}
    expected = sorted(message[:5] for message in messages)
    columns = [*IDENTITY, "position"]
    for table in ("messages", "consume_queue"):
        rows = [row for row in rows_of(lake, table, columns) if row[1] in topics]
        assert rows == expected, f"{table} differs {note}"
    keys = rows_of(lake, "message_index", ["broker", "topic", "position", "key"])
    expected_keys = sorted((message[0], message[1], message[4], message[5]) for message in messages)
    assert [row for row in keys if row[1] in topics] == expected_keys, f"message_index differs {note}"


def broker_of(url: str) -> dict[str, Any]:
    """What `GET /v1/broker` answers."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=90)
    try:
        connection.request("GET", "/v1/broker")
        return json.loads(connection.getresponse().read())
    finally:
        connection.close()


def wait_until_compacted(url: str, is_alive: Callable[[], bool] = lambda: True) -> None:
    """Waits until the lake holds all that the log held when this was called."""
    end, reached = broker_of(url)["max_position"], -1
    give_up = time.monotonic() + WAIT_S_MAX
    while (compacted := broker_of(url)["compacted_position"]) < end:
        if compacted > reached:  # however slow the machine is
            reached, give_up = compacted, time.monotonic() + WAIT_S_MAX
        assert time.monotonic() < give_up, "the lake does not catch up with the log"
        assert is_alive(), "the lake query has ended"
        time.sleep(0.1)
