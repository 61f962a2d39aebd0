"""Erasing messages from what was cut off a log and is kept beside it (`truncate.py`).

A position is of one message within its epoch only: what was cut was given again by the leader, in a later one. So what
is erased there is what the log's epochs say to be the same message, as where a follower has cut a frame whose bits had
changed and taken it again. All else in such a file is in no log any more, and no erasure can name it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyroaring import BitMap64

from lakemq.settings import Storage
from lakemq.storage.disk.files import Files
from lakemq.storage.mend.erased_rows import erase_rows, wanted_of
from lakemq.storage.mend.truncate import KEPT
from lakemq.storage.segment.frame import FrameError, Meta
from lakemq.storage.segment.mask import Payload
from lakemq.storage.segment.rows import PayloadCodec
from lakemq.storage.segment.scan import Broken, scan
from lakemq.storage.segment.segment import Segment
from lakemq.storage.state.log_identity import LogIdentity

logger = logging.getLogger(__name__)
_HALF_WRITTEN = ".frames.tmp"


@dataclass
class KeptErasure:
    """Of these positions of that log."""

    identity: LogIdentity
    positions: BitMap64

    def in_frame(self, meta: Meta) -> BitMap64:
        """Those of them that are messages of that frame."""
        count, named = wanted_of(meta, self.positions)
        if not count or meta.log.log_id != self.identity.now.log_id:
            return BitMap64()
        rows = range(meta.first_position, meta.first_position + meta.count)
        return BitMap64(each for each in rows if each in named and self.identity.epoch_of(each) == meta.log.epoch)


def erase_kept(files: Files, directory: Path, settings: Storage, erasure: KeptErasure) -> list[str]:
    """Erase them from all that is kept there, of a log that is open; on disk on return. Each file is as it was, or
    without them, whatever crashes; and what a crash left of one half written is gone. Files that may hold them still,
    as they can't be read or written, don't keep the others from being done: returns a line for each. Raises `OSError`
    where it can't be seen which files there are."""
    left: list[str] = []
    for name in files.names(directory):
        found = KEPT.fullmatch(name)
        try:
            if name.startswith("cut-") and name.endswith(_HALF_WRITTEN):
                files.remove(directory / name)
                files.sync_dir(directory)
            elif found is not None and _may_hold(erasure, int(found[2])):
                _erase_in(files, directory / name, settings, erasure)
        except (OSError, Broken, FrameError) as error:  # what was sound may read otherwise the second time
            left.append(f"{name}: {error}")
    return left


def _may_hold(erasure: KeptErasure, first_position: int) -> bool:
    return bool(erasure.positions) and erasure.positions.max() >= first_position


def _erase_in(files: Files, path: Path, settings: Storage, erasure: KeptErasure) -> None:
    segment = Segment(files, path, 0)
    size = files.size(segment.open())
    try:
        wanted, sound_bytes = 0, 0
        try:
            for frame in scan(segment, 0, size):
                wanted += len(erasure.in_frame(frame.meta))
                sound_bytes = frame.offset + frame.meta.frame_bytes
        except Broken as broken:
            # What can't be read can't be shown to be free of what is erased, and nobody can read it.
            logger.warning("%s is cut back to %d bytes by an erasure: %s", path.name, sound_bytes, broken)
        if wanted or sound_bytes < size:
            codec = PayloadCodec(settings.compression, settings.compression_body_bytes_min)
            files.replace(path, _without(segment, sound_bytes, erasure, codec))
            logger.info("wrote %s again: %d messages erased", path.name, wanted)
    finally:
        segment.close()


def _without(segment: Segment, size: int, erasure: KeptErasure, codec: PayloadCodec) -> Iterator[Payload]:
    for frame in scan(segment, 0, size):
        wanted = erasure.in_frame(frame.meta)
        if wanted:
            yield from erase_rows(frame.meta, frame.payload, wanted, codec)
        else:
            yield segment.read(frame.offset, frame.meta.frame_bytes)
