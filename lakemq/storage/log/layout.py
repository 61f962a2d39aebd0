"""What becomes one frame: the appends' rows by queue, where each goes, and who is told of it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import NamedTuple

from lakemq.model.message import Placed
from lakemq.storage.log.appends import BatchAppend, Key, OneAppend, RowsAppend
from lakemq.storage.log.receiver import UNTOLD, Receiver, Stored, StoredOne, tell_stored
from lakemq.storage.segment.content import Content, form
from lakemq.storage.segment.frame import Packed
from lakemq.storage.segment.rows import PayloadCodec, Row
from lakemq.storage.state.topics import Queue

logger = logging.getLogger(__name__)

LARGE_BYTES = 4 * 1024 * 1024
"""A frame with more bytes of bodies is written in a thread; so much is also written in one turn of the loop."""

AskedOne = tuple[OneAppend, Receiver[StoredOne]]
AskedRows = tuple[RowsAppend, Receiver[Stored]]
AskedBatch = tuple[BatchAppend, Receiver[Stored]]
Asked = AskedOne | AskedRows | AskedBatch


class Layout(NamedTuple):
    """One frame that is about to be written. `notes` makes its notes, and may take long; `tell` is called with its
    store time when it is there; `large`: so large that it is written in a thread."""

    content: Content
    groups: list[tuple[Queue, int]]
    body_bytes: int
    notes: Callable[[], bytes]
    tell: Callable[[int], None]
    packed: Packed | None = None
    large: bool = False


def no_notes() -> bytes:
    """Of appends without keys."""
    return b""


def lay_out_ones(ones: list[AskedOne], codec: PayloadCodec, position: int) -> Layout:
    """The frame of single messages whose first one gets this position."""
    queues: dict[Queue, tuple[list[Row], list[Receiver[StoredOne]]]] = {}
    for (row, queue), receiver in ones:
        group = queues.get(queue)
        if group is None:
            queues[queue] = [row], [receiver]
        else:
            group[0].append(row)
            group[1].append(receiver)
    rows = [row for group, _ in queues.values() for row in group]
    offsets = [queue.next_offset for queue in queues]

    def tell(store_time_ms: int) -> None:
        at = position
        for offset, (queue, (_, receivers)) in zip(offsets, queues.items(), strict=True):
            queue_id = queue.queue_id
            for number, receiver in enumerate(receivers):
                try:  # `tell_stored`, without the call: that is 5 to 10 % of what a message costs
                    if not receiver.done():
                        receiver.set_result((queue_id, offset + number, at + number, store_time_ms))
                except Exception:
                    logger.exception(UNTOLD)
            at += len(receivers)

    groups = [(queue, len(group)) for queue, (group, _) in queues.items()]
    body_bytes = sum([len(row[1]) for row in rows])
    return Layout(form(rows, body_bytes, codec), groups, body_bytes, no_notes, tell)


def lay_out_rows(asked: list[AskedRows], codec: PayloadCodec, position: int) -> Layout:
    """The frame of requests whose first message gets this position."""
    queues: dict[Queue, list[Row]] = {}
    for append, _ in asked:
        for row, queue in zip(append.rows, append.queues, strict=True):
            group = queues.get(queue)
            if group is None:
                queues[queue] = [row]
            else:
                group.append(row)
    rows: list[Row] = []
    for queue, group in queues.items():
        queue.fill_offset = queue.next_offset
        queue.fill_position = position + len(rows)
        rows += group
    results = [_fill(append.queues) for append, _ in asked]
    keyed = [(append.key, placed) for (append, _), placed in zip(asked, results, strict=True) if append.key]

    def tell(store_time_ms: int) -> None:
        for (_, receiver), placed in zip(asked, results, strict=True):
            try:  # `tell_stored`, without the call, as above
                if not receiver.done():
                    receiver.set_result(Stored(placed, store_time_ms))
            except Exception:
                logger.exception(UNTOLD)

    groups = [(queue, len(group)) for queue, group in queues.items()]
    notes = (lambda: encode_notes(keyed)) if keyed else no_notes
    body_bytes = sum([len(row[1]) for row in rows])
    return Layout(form(rows, body_bytes, codec), groups, body_bytes, notes, tell)


def _fill(queues: list[Queue]) -> list[Placed]:
    """Where the next rows of these queues go, by the frame that is being laid out."""
    placed: list[Placed] = []
    for queue in queues:
        placed.append(Placed(queue.queue_id, queue.fill_offset, queue.fill_position))
        queue.fill_offset += 1
        queue.fill_position += 1
    return placed


def lay_out_batch(asked: list[AskedBatch], codec: PayloadCodec, position: int) -> Layout:
    """The frame of one batch whose first row gets this position."""
    ((append, receiver),) = asked
    placed: list[Placed] = []
    at = position
    for queue, count in append.groups:
        placed.append(Placed(queue.queue_id, queue.next_offset, at))
        at += count

    def notes() -> bytes:
        if append.key is None:
            return b""
        return encode_notes([(append.key, append.spread.each(placed) if append.spread else placed)])

    def tell(store_time_ms: int) -> None:
        tell_stored(receiver, Stored(placed, store_time_ms))

    body_bytes = append.body_bytes
    large = body_bytes > LARGE_BYTES
    return Layout(append.content, append.groups, body_bytes, notes, tell, append.packed, large)


def encode_notes(keyed: list[tuple[Key, list[Placed]]]) -> bytes:
    """The notes of a frame."""
    return json.dumps([{**key._asdict(), "placed": placed} for key, placed in keyed]).encode()
