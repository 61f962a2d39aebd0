"""What is asked of the log: messages, and where they go. Nothing here does anything yet."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import pyarrow as pa

from lakemq.model.message import Placed
from lakemq.storage.segment.content import Columns, Content
from lakemq.storage.segment.frame import Packed
from lakemq.storage.segment.rows import Row, body_bytes_of
from lakemq.storage.state.topics import Queue


class Key(NamedTuple):
    """A request's idempotency key and the digest of its payload. `former`: what the key was called while it was the
    topic's, whoever sent it (empty: it had no such name). Nothing is stored by that name any more, but an older version
    may have."""

    key: str
    payload: str
    former: str = ""


class Spread(NamedTuple):
    """Where the messages of a request stand in its batch, whose rows are grouped by queue: message i is row
    `rows[i]`, and in group `groups[i]`."""

    groups: list[int]
    rows: list[int]

    def each(self, placed: list[Placed]) -> list[Placed]:
        """Where each message is, in the request's order, when `placed` says where each group's first one is."""
        first = placed[0].position
        queue_ids = [group.queue_id for group in placed]
        behind = [group.queue_offset - (group.position - first) for group in placed]
        found = zip(self.groups, self.rows, strict=True)
        return [Placed(queue_ids[group], behind[group] + row, first + row) for group, row in found]


class OneAppend(NamedTuple):
    """One message of the hot path, without a key: its receiver is given a `StoredOne`, the others' a `Stored`."""

    row: Row
    queue: Queue

    @property
    def queues(self) -> Iterable[Queue]:
        """Where it goes."""
        return (self.queue,)


class RowsAppend(NamedTuple):
    """One request's messages: `rows[i]` in `queues[i]`, all in one frame."""

    rows: list[Row]
    queues: list[Queue]
    key: Key | None = None

    @property
    def messages(self) -> int:
        """How many messages these are."""
        return len(self.rows)

    @property
    def body_bytes(self) -> int:
        """Of all bodies together."""
        return sum([len(row[1]) for row in self.rows])


class BatchAppend(NamedTuple):
    """One request's rows as they are to be stored, a frame of their own, grouped by queue: `(queue, rows)` in their
    order. `Stored.placed` has an entry a group then: its first row. `packed`: its payload, when that is made
    already. `spread`: where each message is, for the key's note."""

    content: Content
    groups: list[tuple[Queue, int]]
    body_bytes: int
    key: Key | None = None
    packed: Packed | None = None
    spread: Spread | None = None

    @classmethod
    def of(cls, batch: pa.RecordBatch, groups: list[tuple[Queue, int]]) -> BatchAppend:
        """Of these columns, some of `STORED`, whose bodies are measured."""
        return cls(Columns(batch), groups, body_bytes_of(batch))

    @property
    def batch(self) -> pa.RecordBatch:
        """Its rows as columns."""
        return self.content.batch

    @property
    def messages(self) -> int:
        """How many messages these are."""
        return self.content.count

    @property
    def queues(self) -> Iterable[Queue]:
        """Where they go."""
        return [queue for queue, _ in self.groups]
