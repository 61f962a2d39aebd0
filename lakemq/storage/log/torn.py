"""The end of the last segment after a crash: what may be cut, and what is damage.

Data that was not flushed reaches the disk in any order, so a power cut may leave a sound frame after a
bad one. Nothing was promised of either, unless the bad one had been flushed: of that the mark tells, and
each frame after it, by how much of the segment was on disk as it was written.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path

from lakemq.storage.disk.files import Files
from lakemq.storage.segment.scan import CHUNK_BYTES, Broken, find_frame, scan
from lakemq.storage.segment.segment import Segment
from lakemq.storage.segment.side_files import TORN, free_path

logger = logging.getLogger(__name__)


def flushed_by_later_frames(segment: Segment, broken: Broken, size: int, position_min: int) -> int | None:
    """How much of the segment was on disk for certain, by the sound frames after the bad one; None when
    there are none."""
    flushed: int | None = None
    offset = find_frame(segment, broken.offset + 1, size, position_min)
    while offset is not None and offset < size:
        try:
            for at, meta, _ in scan(segment, offset, size):
                flushed = max(flushed or 0, meta.flushed_bytes)
                offset = at + meta.frame_bytes
        except Broken as next_one:
            offset = find_frame(segment, next_one.offset + 1, size, position_min)
    return flushed


def cut_tail(files: Files, segment: Segment, broken: Broken, size: int, keep: bool) -> None:
    """Cut the segment where it is broken; on disk once the segment is. `keep`: what is cut stays beside it,
    on disk. Raises `OSError`."""
    kept = ""
    if keep:
        kept = f"; they are kept as {_keep(files, segment, broken.offset, size).name}"
    files.truncate(segment.open(), broken.offset)
    logger.warning(
        "cut a torn tail of %d bytes off segment %s at offset %d (%s)%s",
        size - broken.offset, segment.path.name, broken.offset, broken.reason, kept,
    )  # fmt: skip


def _keep(files: Files, segment: Segment, offset: int, size: int) -> Path:
    path = free_path(files, segment, TORN)
    descriptor = files.open_append(path)
    try:
        for at in range(offset, size, CHUNK_BYTES):
            files.append_all(descriptor, segment.read(at, min(CHUNK_BYTES, size - at)))
        files.sync(descriptor)
    except OSError:  # each start would leave another part, of what room there is
        with suppress(OSError):
            files.remove(path)
        raise
    finally:
        files.close(descriptor)
    files.sync_dir(path.parent)
    return path
