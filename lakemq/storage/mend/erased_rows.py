"""What an erasure makes of a frame: frames of the messages that stay, and holes that say which are gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from pyroaring import BitMap64

from lakemq.model.names import ERASURE_TOPIC
from lakemq.storage.segment.content import decode_content, encode_content
from lakemq.storage.segment.frame import KIND_HOLE, KIND_MESSAGES, Meta, Run, encode, encode_queue
from lakemq.storage.segment.mask import Payload
from lakemq.storage.segment.rows import PayloadCodec


class Stretch(NamedTuple):
    """Rows `begin ≤ row < end` of a frame, all to be erased or all to be kept."""

    begin: int
    end: int
    is_erased: bool


def stretches(meta: Meta, positions: BitMap64) -> list[Stretch]:
    """The frame's rows, in order."""
    found: list[Stretch] = []
    for row in range(meta.count):
        is_erased = meta.first_position + row in positions
        if found and found[-1].is_erased == is_erased:
            found[-1] = found[-1]._replace(end=row + 1)
        else:
            found.append(Stretch(row, row + 1, is_erased))
    return found


def erase_rows(meta: Meta, payload: memoryview, positions: BitMap64, codec: PayloadCodec) -> Iterator[Payload]:
    """The frame as frames without these messages: holes are in their place."""
    content = decode_content(meta, payload)
    notes = meta.notes
    for stretch in stretches(meta, positions):
        runs = [
            (run.first_queue_offset, run.count, encode_queue(run.topic, run.queue_id))
            for run in _cut(meta.runs, stretch.begin, stretch.end)
        ]
        first, count = meta.first_position + stretch.begin, stretch.end - stretch.begin
        if stretch.is_erased:
            yield from encode(meta.log, KIND_HOLE, first, meta.store_time_ms, count, 0, runs, notes, b"")
        else:
            rows = content.stretch(stretch.begin, stretch.end)
            place = KIND_MESSAGES, first, meta.store_time_ms, count, rows.mask
            kept = encode_content(rows, rows.body_bytes, codec)
            yield from encode(meta.log, *place, runs, notes, kept, encoding=rows.encoding)
        notes = b""


def _cut(runs: tuple[Run, ...], begin: int, end: int) -> Iterator[Run]:
    for run in runs:
        first, last = max(run.row, begin), min(run.row + run.count, end)
        if first < last:
            yield Run(run.topic, run.queue_id, run.first_queue_offset + first - run.row, last - first, first - begin)


def wanted_of(meta: Meta, positions: BitMap64) -> tuple[int, BitMap64]:
    """How many of the frame's messages are to be erased, and which positions these are, among others."""
    end = meta.first_position + meta.count
    if meta.kind != KIND_MESSAGES or not positions.range_cardinality(meta.first_position, end):
        return 0, positions
    if any(run.topic == ERASURE_TOPIC for run in meta.runs):
        positions = positions.copy()
        for run in meta.runs:
            if run.topic == ERASURE_TOPIC:
                positions.remove_range(meta.first_position + run.row, meta.first_position + run.row + run.count)
    return positions.range_cardinality(meta.first_position, end), positions
