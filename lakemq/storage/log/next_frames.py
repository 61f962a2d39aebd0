"""Frames that come from another log's primary: each is looked at in full before anything of it is written."""

from __future__ import annotations

import json
from typing import Any, NamedTuple
from uuid import UUID

import pyarrow as pa

from lakemq.model.errors import LakemqError
from lakemq.storage.segment.content import NO_ROWS, Content, decode_content
from lakemq.storage.segment.frame import (
    KIND_HOLE,
    KIND_MESSAGES,
    KIND_STATE,
    FrameError,
    LogEpoch,
    Meta,
    NewerVersion,
    decode_meta,
    open_payload,
)
from lakemq.storage.state.log_state import LogState

_WHAT_IT_SAYS = (LookupError, TypeError, ValueError, LakemqError, pa.ArrowException)


class Diverged(Exception):
    """What comes is not what follows here, and never will be."""


class NextFrame(NamedTuple):
    """A sound frame: its bytes, and what they say. `state`: of a state frame."""

    data: memoryview
    meta: Meta
    content: Content
    state: dict[str, Any] | None


class Page(NamedTuple):
    """The sound frames of an answer, in order. `fault`: why the next one is none."""

    frames: list[NextFrame]
    fault: str | None


def next_frames(data: bytes, position: int, log: LogEpoch) -> Page:
    """The frames of `data` that go on at `position` with the log, up to the first that isn't sound. In any thread.

    Raises `Diverged` for a sound frame of another log, of an epoch that is over, or of other positions.
    """
    page = memoryview(data)
    frames: list[NextFrame] = []
    at = 0
    while at < len(page):
        try:
            frame = _open(page, at)
        except NewerVersion as error:
            newer = f"the frame at position {position} is of a newer lakemq: {error}; it takes a replica that is as new"
            return Page(frames, newer)
        except FrameError as error:
            return Page(frames, f"the frame at position {position} is not sound: {error}")
        _check(frame.meta, position, log)
        position, log = position + frame.meta.count, frame.meta.log
        frames.append(frame)
        at += frame.meta.frame_bytes
    return Page(frames, None)


def _open(page: memoryview, at: int) -> NextFrame:
    """The frame there; raises `FrameError`."""
    meta = decode_meta(page, at)
    data = page[at : at + meta.frame_bytes]
    payload = open_payload(meta, data[meta.meta_bytes :])
    try:
        if meta.kind == KIND_MESSAGES:
            return NextFrame(data, meta, decode_content(meta, payload), None)
        if meta.kind == KIND_STATE:
            state = json.loads(bytes(payload))
            LogState().restore(state)  # as a start would
            return NextFrame(data, meta, NO_ROWS, state)
    except _WHAT_IT_SAYS as error:
        raise FrameError(f"its checksums are right, but what it says is not: {error!r}") from None
    if meta.kind != KIND_HOLE:
        raise FrameError(f"it is of kind {meta.kind}, which this lakemq doesn't know")
    return NextFrame(data, meta, NO_ROWS, None)


def _check(meta: Meta, position: int, log: LogEpoch) -> None:
    if meta.log.log_id != log.log_id:
        raise Diverged(f"a frame of the log {UUID(bytes=meta.log.log_id)} comes, and this is {UUID(bytes=log.log_id)}")
    if meta.log.epoch < log.epoch:
        raise Diverged(f"a frame of epoch {meta.log.epoch} comes, and this log is in epoch {log.epoch}")
    if meta.first_position != position:
        raise Diverged(f"a frame comes that begins with position {meta.first_position}, where {position} is due")
