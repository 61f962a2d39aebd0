"""What has been asked of the log and is not written yet."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from typing import Any, TypeVar

from lakemq.model.errors import StoreUnwritable
from lakemq.storage.log.appends import BatchAppend, OneAppend, RowsAppend
from lakemq.storage.log.layout import (
    LARGE_BYTES,
    Asked,
    AskedBatch,
    AskedOne,
    AskedRows,
    Layout,
    lay_out_batch,
    lay_out_ones,
    lay_out_rows,
)
from lakemq.storage.log.receiver import PassOn, Receiver, tell_failed
from lakemq.storage.segment.rows import PayloadCodec
from lakemq.storage.state.topics import Queue

ROW_BYTES = 64
"""About what a row takes in a frame beside its body: in the payload, the runs and the notes."""

A = TypeVar("A", AskedOne, AskedRows, AskedBatch)
LayOut = Callable[[PayloadCodec, int], Layout]
"""Lays a frame out whose first message gets that position."""


class Pending:
    """Appends in the order in which they came, of each kind."""

    def __init__(self) -> None:
        self._ones: list[AskedOne] = []
        self._rows: list[AskedRows] = []
        self._batches: deque[AskedBatch] = deque()

    def add(self, append: OneAppend | RowsAppend | BatchAppend, receiver: Receiver[Any]) -> None:
        """One more."""
        if isinstance(append, OneAppend):
            self._ones.append((append, receiver))
        elif isinstance(append, RowsAppend):
            self._rows.append((append, receiver))
        else:
            self._batches.append((append, receiver))

    def __bool__(self) -> bool:
        return bool(self._ones or self._rows or self._batches)

    @property
    def count(self) -> int:
        """How many messages these are."""
        count = len(self._ones)
        if self._rows or self._batches:
            count += sum([each.messages for each, _ in self._rows]) + sum([each.messages for each, _ in self._batches])
        return count

    def take(self, frame_bytes_max: int, deleted: AbstractSet[Queue]) -> Iterator[tuple[Sequence[Asked], LayOut]]:
        """What becomes a frame each in this turn of the loop. What is for `deleted` queues is refused."""
        ones, self._ones = self._ones, []
        rows, self._rows = self._rows, []
        if ones and (rows or sum([len(one.row[1]) for one, _ in ones]) > frame_bytes_max // 4):
            rows = [*map(_as_rows, ones), *rows]
        elif ones:
            yield from _frame(ones, lay_out_ones, deleted)
        if rows:
            group, *later = in_frames(rows, min(LARGE_BYTES, frame_bytes_max // 2))
            # What else is there may take long as well: others have their turn first.
            self._rows = [asked for group in later for asked in group] + self._rows
            yield from _frame(group, lay_out_rows, deleted)
        taken = 0
        while self._batches and taken < LARGE_BYTES:
            batch = self._batches.popleft()
            taken += batch[0].body_bytes
            yield from _frame([batch], lay_out_batch, deleted)


def _frame(
    asked: list[A], lay_out: Callable[[list[A], PayloadCodec, int], Layout], deleted: AbstractSet[Queue]
) -> Iterator[tuple[Sequence[Asked], LayOut]]:
    if deleted:
        asked = _refuse_deleted(asked, deleted)
    if asked:
        yield asked, partial(lay_out, asked)


def _refuse_deleted(asked: list[A], deleted: AbstractSet[Queue]) -> list[A]:
    """Those whose queues are there. The others came too late, and are refused: a start would take what is stored in a
    deleted topic for a topic."""
    there: list[A] = []
    for each in asked:
        if any(queue in deleted for queue in each[0].queues):
            refuse([each], StoreUnwritable("the topic was deleted while the messages came"))
        else:
            there.append(each)
    return there


def refuse(asked: Sequence[Asked], error: Exception) -> None:
    """Tell all who wait that nothing was stored."""
    for _, receiver in asked:
        tell_failed(receiver, error)


def _as_rows(asked: AskedOne) -> AskedRows:
    """One message as a request like the others, so that all that is pending makes one frame."""
    (row, queue), receiver = asked
    return RowsAppend([row], [queue]), PassOn(receiver)


def in_frames(asked: list[AskedRows], bytes_max: int) -> Iterator[list[AskedRows]]:
    """The requests, in groups that fit a frame of about so many bytes: nearly always all in one."""
    size = sum([len(row[1]) + ROW_BYTES for append, _ in asked for row in append.rows])
    if size <= bytes_max and asked:
        yield asked
        return
    size = begin = 0
    for number, (append, _) in enumerate(asked):
        request_bytes = append.body_bytes + append.messages * ROW_BYTES
        if size and size + request_bytes > bytes_max:
            yield asked[begin:number]
            begin, size = number, 0
        size += request_bytes
    if begin < len(asked):
        yield asked[begin:]
