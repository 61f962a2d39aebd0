"""Rows made of the log's frames, where they are read: the gateway only sends its files' bytes.

docs/log_format.md, "Following the log", is the protocol. What isn't sound, or isn't what was asked for, is asked for
again as messages: for those the gateway checks what it reads, and answers with what the lake holds where it is damaged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from uuid import UUID

import pyarrow as pa

from lakemq.jobs.log_client import PAGE_BYTES_MAX, LogClient, Subscription
from lakemq.model.columns import READABLE
from lakemq.model.errors import LogDamaged
from lakemq.storage.segment.frame import KIND_MESSAGES, KIND_STATE, FrameError, Meta
from lakemq.storage.segment.segment import Frame, open_frame
from lakemq.storage.segment.slice import Slice, slices_of
from lakemq.storage.slices.messages import to_batches
from lakemq.storage.state.log_identity import LogIdentity
from lakemq.storage.state.message_ids import MessageIds

logger = logging.getLogger(__name__)


def read_frames(
    client: LogClient, broker: str, begin: int, end: int, columns: list[str], log_id: str = ""
) -> Iterator[tuple[pa.Table, int]]:
    """The messages of one answer with begin ≤ position < end, in tables of about `PAGE_BYTES_MAX` of memory, however
    small the frames were packed; each with the position that the next begins with. At least one table. Raises as
    `LogClient.messages` does."""
    schema = pa.schema([READABLE[name] for name in columns])
    identity, ids = LogIdentity(), MessageIds(broker)
    slices: list[Slice] = []
    told = reached = begin
    size = 0
    for frame in _sound_frames(client, begin, end, log_id):
        if frame.meta.log != identity.now:
            identity.apply(frame.meta)
            ids.open(identity)
        if frame.meta.kind == KIND_MESSAGES:
            slices += slices_of(frame, reached, end)
        reached = min(frame.meta.first_position + frame.meta.count, end)
        size += frame.content.memory_bytes
        if size >= PAGE_BYTES_MAX:
            yield pa.Table.from_batches(to_batches(slices, ids, schema), schema), reached
            told, slices, size = reached, [], 0
    if reached == begin:
        yield client.messages(begin, end, Subscription(), columns, log_id)
    elif reached > told:
        yield pa.Table.from_batches(to_batches(slices, ids, schema), schema), reached


def _sound_frames(client: LogClient, begin: int, end: int, log_id: str) -> Iterator[Frame]:
    """The frames of one answer, one after the other without a gap, up to the first that isn't sound."""
    position = begin
    try:
        page = memoryview(client.frames(begin, end, log_id))
        at = 0
        while at < len(page):
            frame = open_frame(page, at)
            at += frame.meta.frame_bytes
            if frame.meta.kind != KIND_STATE:
                _check(frame.meta, position, log_id)
                position = frame.meta.first_position + frame.meta.count
                yield frame
    except (FrameError, LogDamaged) as error:
        logger.warning("can't read the frames of %s from position %d on: %s", client.address, position, error)


def _check(meta: Meta, position: int, log_id: str) -> None:
    if not meta.first_position <= position < meta.first_position + meta.count:
        raise FrameError(f"a frame of {meta.count} positions from {meta.first_position} on comes instead")
    if log_id and meta.log.log_id != UUID(log_id).bytes:
        raise FrameError(f"a frame of the log {UUID(bytes=meta.log.log_id)} comes instead of one of {log_id}")
