"""The messages in a file of frames: in what was cut off a follower's log, or in a segment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lakemq.model.errors import LogDamaged
from lakemq.storage.disk.files import Files
from lakemq.storage.segment.frame import HEADER_BYTES, KIND_MESSAGES, FrameError, header_sizes
from lakemq.storage.segment.segment import Frame, open_frame
from lakemq.storage.segment.slice import Slice
from lakemq.storage.slices.messages import to_dicts
from lakemq.storage.state.log_identity import LogIdentity
from lakemq.storage.state.message_ids import MessageIds


def messages_in(path: Path, broker: str, files: Files | None = None) -> Iterator[dict[str, Any]]:
    """The messages as the contract's JSON, with the ids that they had at that broker, a frame at a time. Raises
    `LogDamaged` at the first frame that isn't sound, and `OSError`."""
    for frame in _frames_in(path, files or Files()):
        if frame.meta.kind == KIND_MESSAGES:
            ids, identity = MessageIds(broker), LogIdentity()
            identity.begin(frame.meta.log, frame.meta.first_position)
            ids.open(identity)
            for run in frame.meta.runs:
                yield from to_dicts(Slice(frame, run, run.row, run.count), ids)


def _frames_in(path: Path, files: Files) -> Iterator[Frame]:
    descriptor = files.open_read(path)
    try:
        at, size = 0, files.size(descriptor)
        while at < size:
            try:
                _, frame_bytes = header_sizes(files.read(descriptor, HEADER_BYTES, at))
                frame = open_frame(files.read(descriptor, min(frame_bytes, size - at), at))
            except FrameError as error:
                raise LogDamaged(f"{path} holds no sound frame at byte {at}: {error}") from None
            yield frame
            at += frame_bytes
    finally:
        files.close(descriptor)
