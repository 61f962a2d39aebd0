"""Requests with many messages, or large ones: their rows become a frame's batch in a thread, so that the loop only
says where it goes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pyarrow as pa

from lakemq.contract.forms import ARROW
from lakemq.gateway.placement.placement import Batch
from lakemq.storage.log.apart import Spread
from lakemq.storage.segment.frame import Packed
from lakemq.storage.segment.rows import Row, body_bytes_of, rows_to_batch
from lakemq.storage.state.topics import Queue

LARGE_BYTES = 256 * 1024
LARGE_ARROW_BYTES = 4 * 1024 * 1024
VALUES_MAX = 500
"""So many JSON values the loop itself takes: that is a matter of milliseconds."""


class Bulk(NamedTuple):
    """A request's batch as it will be stored, its rows grouped by queue. `spread`: where each of its messages is in
    it; None where they stand as they came, as with Arrow."""

    batch: pa.RecordBatch
    groups: list[tuple[Queue, int]]
    body_bytes: int
    packed: Packed
    spread: Spread | None


def is_large(headers: Mapping[str, str], body: bytes) -> bool:
    """Whether others would notice if the loop itself decoded the body and placed its messages."""
    if "content-encoding" in headers:
        return True
    if headers.get("content-type") == ARROW:
        return len(body) > LARGE_ARROW_BYTES
    return len(body) > LARGE_BYTES or (len(body) > 4 * VALUES_MAX and body.count(b",") + body.count(b"{") > VALUES_MAX)


def pack_batch(placed: Batch, pack: Callable[[pa.RecordBatch, int], Packed]) -> Bulk:
    """The bulk of rows that came as Arrow. Any thread may call it."""
    body_bytes = body_bytes_of(placed.batch)
    return Bulk(placed.batch, placed.groups, body_bytes, pack(placed.batch, body_bytes), None)


def make_bulk(rows: list[Row], queues: list[Queue], pack: Callable[[pa.RecordBatch, int], Packed]) -> Bulk:
    """The bulk of rows, `rows[i]` in `queues[i]`. Any thread may call it."""
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
    body_bytes = sum([len(row[1]) for row in rows])
    counts = [(queue, len(each)) for queue, each in zip(numbers, members, strict=True)]
    return Bulk(batch, counts, body_bytes, pack(batch, body_bytes), Spread(groups, at))
