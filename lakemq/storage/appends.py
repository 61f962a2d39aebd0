"""What is asked of the log, and what it answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from lakemq.model.message import Placed
from lakemq.storage.rows import Row
from lakemq.storage.topics import Queue


class Key(NamedTuple):
    """A request's idempotency key and the digest of its payload."""

    key: str
    payload: str


class Stored(NamedTuple):
    """Where a request's messages are, in the request's order; all were stored at one time."""

    placed: list[Placed]
    store_time_ms: int


StoredOne = tuple[int, int, int, int]
"""Where one message is: `(queue id, queue offset, position, store time in ms)`."""


class RowsAppend(NamedTuple):
    """One request's rows, each with its queue."""

    rows: list[Row]
    queues: list[Queue]
    body_bytes: int
    future: asyncio.Future[Stored]
    key: Key | None


class OneAppend(NamedTuple):
    """One message of the hot path: no key, and a future that needs no list."""

    row: Row
    queue: Queue
    future: asyncio.Future[StoredOne]


class BatchAppend(NamedTuple):
    """One request's batch, its rows grouped by queue: `(queue, rows)` in the batch's order."""

    batch: pa.RecordBatch
    groups: list[tuple[Queue, int]]
    body_bytes: int
    future: asyncio.Future[Stored]
    key: Key | None


def refuse(requests: Sequence[OneAppend | RowsAppend | BatchAppend], error: Exception) -> None:
    """Tell all who wait that nothing was stored."""
    for request in requests:
        if not request.future.done():
            request.future.set_exception(error)


def place(queues: list[Queue]) -> list[Placed]:
    """Where the next rows of these queues go, by the frame that is being built."""
    placed: list[Placed] = []
    for queue in queues:
        placed.append(Placed(queue.queue_id, queue.fill_offset, queue.fill_position))
        queue.fill_offset += 1
        queue.fill_position += 1
    return placed
