"""What is asked of the log, and what it answers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol, TypeVar

import pyarrow as pa

from lakemq.model.errors import StoreUnwritable
from lakemq.model.message import Placed
from lakemq.storage.log.apart import Spread
from lakemq.storage.segment.frame import Packed
from lakemq.storage.segment.rows import Row
from lakemq.storage.state.topics import Queue

ROW_BYTES = 64
"""About what a row takes in a frame beside its body: in the payload, the runs and the notes."""

Result = TypeVar("Result", contravariant=True)


class Receiver(Protocol[Result]):
    """Who is told what became of an append: a future, or what takes its place. It is told by who
    writes the frame, or brings it to disk, so it must be quick and not fail."""

    def done(self) -> bool:
        """Whether it needs to know no more."""
        ...

    def set_result(self, result: Result, /) -> None:
        """It is stored, and on disk where that was waited for."""
        ...

    def set_exception(self, exception: Exception, /) -> None:
        """Nothing of it is stored; or, where the disk was waited for, it may be lost."""
        ...


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
    future: Receiver[Stored]
    key: Key | None


class OneAppend(NamedTuple):
    """One message of the hot path: no key, and a future that needs no list."""

    row: Row
    queue: Queue
    future: Receiver[StoredOne]


class BatchAppend(NamedTuple):
    """One request's batch, its rows grouped by queue: `(queue, rows)` in the batch's order. `packed`: its payload,
    when that is made already. `spread`: for notes that say of each message where it is."""

    batch: pa.RecordBatch
    groups: list[tuple[Queue, int]]
    body_bytes: int
    future: Receiver[Stored]
    key: Key | None
    packed: Packed | None = None
    spread: Spread | None = None


A = TypeVar("A", OneAppend, RowsAppend, BatchAppend)


def refuse_deleted(requests: list[A], deleted: AbstractSet[Queue]) -> list[A]:
    """Those of the requests whose queues are there. The others came too late, and are refused: a start would take
    what is stored in a deleted topic for a topic."""
    there: list[A] = []
    for request in requests:
        if any(queue in deleted for queue in _queues_of(request)):
            refuse([request], StoreUnwritable("the topic was deleted while the messages came"))
        else:
            there.append(request)
    return there


def _queues_of(request: OneAppend | RowsAppend | BatchAppend) -> Iterable[Queue]:
    if isinstance(request, OneAppend):
        return (request.queue,)
    return request.queues if isinstance(request, RowsAppend) else [queue for queue, _ in request.groups]


def refuse(requests: Sequence[OneAppend | RowsAppend | BatchAppend], error: Exception) -> None:
    """Tell all who wait that nothing was stored."""
    for request in requests:
        if not request.future.done():
            request.future.set_exception(error)


def ones_by_queue(ones: list[OneAppend]) -> dict[Queue, tuple[list[Row], list[Receiver[StoredOne]]]]:
    """The rows of each queue, and who is told of them."""
    groups: dict[Queue, tuple[list[Row], list[Receiver[StoredOne]]]] = {}
    for row, queue, future in ones:
        group = groups.get(queue)
        if group is None:
            groups[queue] = [row], [future]
        else:
            group[0].append(row)
            group[1].append(future)
    return groups


def rows_by_queue(requests: list[RowsAppend]) -> dict[Queue, list[Row]]:
    """The rows of each queue."""
    groups: dict[Queue, list[Row]] = {}
    for request in requests:
        for row, queue in zip(request.rows, request.queues, strict=True):
            group = groups.get(queue)
            if group is None:
                groups[queue] = [row]
            else:
                group.append(row)
    return groups


def lay_out(requests: list[RowsAppend], position: int) -> tuple[list[Row], list[tuple[Queue, int]], list[list[Placed]]]:
    """The rows of one frame whose first message gets this position, its groups, and where each request's messages
    go."""
    rows: list[Row] = []
    groups: list[tuple[Queue, int]] = []
    for queue, group in rows_by_queue(requests).items():
        queue.fill_offset = queue.next_offset
        queue.fill_position = position + len(rows)
        rows += group
        groups.append((queue, len(group)))
    return rows, groups, [place(request.queues) for request in requests]


def count(rows: Iterable[RowsAppend], batches: Iterable[BatchAppend]) -> int:
    """How many messages these are."""
    return sum([len(each.rows) for each in rows]) + sum([each.batch.num_rows for each in batches])


def place(queues: list[Queue]) -> list[Placed]:
    """Where the next rows of these queues go, by the frame that is being built."""
    placed: list[Placed] = []
    for queue in queues:
        placed.append(Placed(queue.queue_id, queue.fill_offset, queue.fill_position))
        queue.fill_offset += 1
        queue.fill_position += 1
    return placed


def place_groups(groups: list[tuple[Queue, int]], position: int) -> list[Placed]:
    """Where the first message of each group goes, when the first of all gets this position."""
    placed: list[Placed] = []
    for queue, count in groups:
        placed.append(Placed(queue.queue_id, queue.next_offset, position))
        position += count
    return placed


def notes_for(request: BatchAppend, placed: list[Placed]) -> list[tuple[Key, list[Placed]]]:
    """What is noted of a batch whose groups begin there."""
    if request.key is None:
        return []
    return [(request.key, placed if request.spread is None else request.spread.each(placed))]


def encode_notes(keyed: list[tuple[Key, list[Placed]]]) -> bytes:
    """The notes of a frame."""
    return json.dumps([{**key._asdict(), "placed": placed} for key, placed in keyed]).encode() if keyed else b""


class _PassOn:
    """Tells who waits for one message what a request of several is told."""

    __slots__ = ("_receiver", "done", "set_exception")

    def __init__(self, receiver: Receiver[StoredOne]) -> None:
        self._receiver = receiver
        self.done = receiver.done
        self.set_exception = receiver.set_exception

    def set_result(self, stored: Stored, /) -> None:
        queue_id, queue_offset, position = stored.placed[0]
        self._receiver.set_result((queue_id, queue_offset, position, stored.store_time_ms))


def as_rows(one: OneAppend) -> RowsAppend:
    """One message as a request like the others, so that all that is pending makes one frame."""
    return RowsAppend([one.row], [one.queue], len(one.row[1]), _PassOn(one.future), None)


def in_frames(requests: list[RowsAppend], bytes_max: int) -> Iterator[list[RowsAppend]]:
    """The requests, in groups that fit a frame of about so many bytes: nearly always all in one."""
    size = 0
    begin = 0
    for number, request in enumerate(requests):
        request_bytes = request.body_bytes + len(request.rows) * ROW_BYTES
        if size and size + request_bytes > bytes_max:
            yield requests[begin:number]
            begin, size = number, 0
        size += request_bytes
    if begin < len(requests):
        yield requests[begin:]
