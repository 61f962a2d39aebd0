"""Requests with many messages, or large ones: their rows become a frame's batch in a thread, so that the loop only
says where it goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from lakemq.contract.forms import ARROW
from lakemq.gateway.decode.limits import AT_ONCE_BYTES_MAX
from lakemq.storage.log.appends import BatchAppend, RowsAppend, Spread
from lakemq.storage.segment.content import Columns
from lakemq.storage.segment.frame import Packed
from lakemq.storage.segment.rows import rows_to_batch
from lakemq.storage.state.topics import Queue

LARGE_BYTES = 256 * 1024
VALUES_MAX = 500
"""So many JSON values the loop itself takes: that is a matter of milliseconds."""


def is_large(headers: Mapping[str, str], body: bytes) -> bool:
    """Whether others would notice if the loop itself decoded the body and placed its messages."""
    if "content-encoding" in headers:
        return True
    if headers.get("content-type") == ARROW:
        return len(body) > AT_ONCE_BYTES_MAX
    return len(body) > LARGE_BYTES or (len(body) > 4 * VALUES_MAX and body.count(b",") + body.count(b"{") > VALUES_MAX)


def pack(append: RowsAppend | BatchAppend, payload: Callable[[pa.RecordBatch, int], Packed]) -> BatchAppend:
    """The append as a batch whose payload is made. Any thread may call it."""
    batch = append if isinstance(append, BatchAppend) else _by_queue(append)
    return batch._replace(packed=payload(batch.batch, batch.body_bytes))


def _by_queue(append: RowsAppend) -> BatchAppend:
    rows, queues, key = append
    numbers: dict[Queue, int] = {}
    members: list[list[int]] = []
    groups: list[int] = []
    for index, queue in enumerate(queues):
        number = numbers.setdefault(queue, len(members))
        if number == len(members):
            members.append([])
        members[number].append(index)
        groups.append(number)
    order = [index for each in members for index in each]
    at = [0] * len(order)
    for row, index in enumerate(order):
        at[index] = row
    _, batch = rows_to_batch([rows[index] for index in order])
    counts = [(queue, len(each)) for queue, each in zip(numbers, members, strict=True)]
    return BatchAppend(Columns(batch), counts, append.body_bytes, key, spread=Spread(groups, at))
