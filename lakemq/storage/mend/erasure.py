"""Erasing messages from the log: their segments are written again, with holes where they were.

A hole says which positions and offsets are not there any more, so all others keep theirs, and none is
ever given again. What a frame said beside its messages, its store time and its notes, stays.

The new file is whole and on disk before it takes the old one's name, so a crash leaves the one or the
other; of an erasure that was answered, the new one. Only sealed segments are written again: what is
in the one that is being written is sealed first. A log is never built again from sealed segments'
rows, so erasing what changed its state (an effect, say) does not undo that. Records of erasures stay, as whoever was
away has to find them.

    A  the new file, on disk, and its index are beside the old ones; nothing has changed
    B  the old index is gone, which a start makes again from the frames
    C  the new file has the old one's name, on disk; then its index has, or a start makes it again

Then they are erased from what was cut off the log and is kept (`kept_erasure.py`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.compute
from pyroaring import BitMap64

from lakemq.model.errors import LogDamaged, PositionGone, StoreUnwritable
from lakemq.settings import Storage
from lakemq.storage.disk.files import Files
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.mend import repair, stand_in
from lakemq.storage.mend.erased_rows import erase_rows, wanted_of
from lakemq.storage.mend.kept_erasure import KeptErasure, erase_kept
from lakemq.storage.mend.replacing import Replacing
from lakemq.storage.read.reader import Reader
from lakemq.storage.segment.frame import Meta, decode_meta, encode, encode_queue
from lakemq.storage.segment.mask import Payload
from lakemq.storage.segment.rows import PayloadCodec
from lakemq.storage.segment.scan import Broken, Scanned, scan
from lakemq.storage.segment.segment import Segment
from lakemq.storage.segment.segment_index import SegmentIndex
from lakemq.storage.segment.side_files import drop_side_files

# Its functions are made as it is imported: no type checker sees them.
pc: Any = pyarrow.compute
logger = logging.getLogger(__name__)

_POLL_S = 0.002
SCRATCH = ".erase"
SCRATCH_INDEX = ".erase-idx"


class Erased(NamedTuple):
    """What an erasure did: messages that are gone now, positions that had none already, positions that
    have left the log, and the segments that were written again."""

    erased: int = 0
    holes: int = 0
    below: int = 0
    segments: Sequence[str] = ()


class KeptLeft(StoreUnwritable):
    """The log has the messages no more, but they may still stand in what was cut off it and is kept. `erased`: what was
    done in the log."""

    def __init__(self, left: list[str], erased: Erased) -> None:
        which = "; ".join(left)
        super().__init__(f"what is erased from the log may still stand in what was cut off it, in {which}")
        self.erased = erased


class _Writer:
    """A segment's new file, and its index."""

    def __init__(self, files: Files, segment: Segment, old: SegmentIndex) -> None:
        self._files = files
        self.path = segment.path.with_suffix(SCRATCH)
        self.index_path = segment.path.with_suffix(SCRATCH_INDEX)
        files.remove(self.path)
        self._descriptor = files.open_append(self.path)
        self.size = 0
        self.index = SegmentIndex(segment.base_position)
        self.index.start({key: runs.start_offset for key, runs in old.queues.items()})
        self.index.state = old.state

    def write(self, data: bytes | memoryview) -> None:
        """Append bytes, all of them."""
        self.size += len(data)
        self._files.append_all(self._descriptor, data)

    def enter(self, offset: int, meta: Meta) -> None:
        """The frame at that byte is written."""
        self.index.add(offset, meta)

    def finish(self) -> None:
        """Bring the file to disk, and write its index: state A."""
        self._files.sync(self._descriptor)
        self._files.replace(self.index_path, self.index.dump(self.index.state), durable=False)

    def close(self) -> None:
        self._files.close(self._descriptor)

    def discard(self) -> None:
        """Leave nothing behind."""
        self._files.remove(self.path)
        self._files.remove(self.index_path)


def _rewrite(
    files: Files, segment: Segment, old: SegmentIndex, positions: BitMap64, settings: Storage
) -> tuple[_Writer, int]:
    """Write the segment without these messages beside it; how many there were of them. In any thread;
    raises `LogDamaged`, `OSError`."""
    codec = PayloadCodec(settings.compression, settings.compression_body_bytes_min)
    writer = _Writer(files, segment, old)
    erased = 0
    try:
        for frame in scan(segment, 0, segment.size):
            erased += _copy(writer, frame, positions, codec)
        writer.finish()
    except Broken as broken:
        writer.discard()
        raise segment.damaged(broken.offset, broken.reason) from None
    except OSError:
        writer.discard()
        raise
    finally:
        writer.close()
    return writer, erased


def _copy(writer: _Writer, frame: Scanned, positions: BitMap64, codec: PayloadCodec) -> int:
    """Write one frame, or what is left of it; how many messages it lost."""
    meta = frame.meta
    wanted, positions = wanted_of(meta, positions)
    if not wanted:
        # With the same content this is the same frame, byte by byte.
        runs = [(run.first_queue_offset, run.count, encode_queue(run.topic, run.queue_id)) for run in meta.runs]
        parts: list[Payload] = list(
            encode(meta.log, *meta[:5], runs, meta.notes, frame.payload, encoding=meta.encoding)
        )
    else:
        parts = list(erase_rows(meta, frame.payload, positions, codec))
    offset = writer.size
    data = b"".join(parts)
    writer.write(data)
    at = 0
    while at < len(data):
        written = decode_meta(data, at)
        writer.enter(offset + at, written)
        at += written.frame_bytes
    return wanted


def _holds_any(segment: Segment, positions: BitMap64) -> bool:
    """Whether it has such messages still. In any thread; raises `LogDamaged`, `OSError`."""
    try:
        return any(wanted_of(frame.meta, positions)[0] for frame in scan(segment, 0, segment.size))
    except Broken as broken:
        raise segment.damaged(broken.offset, broken.reason) from None


class Eraser:
    """Erases messages of one log, one request at a time. Lives on the log's event loop."""

    def __init__(self, log: CommitLog, reader: Reader, replacing: Replacing) -> None:
        self._log = log
        self._reader = reader
        self._replacing = replacing
        self._stopped = False

    def stop(self) -> None:
        """Begin with no segment any more."""
        self._stopped = True

    async def erase(self, positions: BitMap64) -> Erased:
        """Erase the messages at these positions, all below the log's end; when this returns they are in
        none of the log's files any more, whatever crashes. What is erased already stays so. A follower's are in sealed
        segments, or have left the log.

        Raises `StoreUnwritable` and `LogDamaged`: then some segments may be done, and the same request
        does the others. `KeptLeft`: all segments are.
        """
        async with self._replacing.turn:
            below = positions.range_cardinality(0, self._log.min_position)
            await self.seal(positions)
            total, names = 0, list[str]()
            for segment in self._log.segments[:-1]:
                if not positions.range_cardinality(segment.base_position, segment.end_position):
                    continue
                if self._stopped:
                    raise StoreUnwritable("the gateway stops; what is left is erased after the next start")
                try:
                    erased = await self._erase_in(segment, positions)
                    await asyncio.to_thread(self._forget_kept, segment)
                except LogDamaged as why:
                    self._reader.tell(segment, why)
                    raise
                except OSError as error:
                    raise StoreUnwritable(f"segment {segment.path.name} can't be written again: {error}") from None
                if erased:
                    total += erased
                    names.append(segment.path.name)
            erased = Erased(total, len(positions) - below - total, below, names)
            await self.erase_kept(positions, erased)
            return erased

    async def erase_kept(self, positions: BitMap64, erased: Erased | None = None) -> None:
        """Erase them from what was cut off the log and is kept; `erased`: what was done in the log before.
        Raises `KeptLeft` where they may still stand there."""
        log = self._log
        erasure = KeptErasure(log.identity, positions)
        try:
            left = await asyncio.to_thread(erase_kept, log.files, log.directory, log.settings, erasure)
        except OSError as error:
            left = [f"its folder: {error}"]
        if left:
            raise KeptLeft(left, erased or Erased())

    def are_sealed(self, positions: BitMap64) -> bool:
        """Whether none of them is in the segment that is written."""
        return not positions.range_cardinality(self._log.active.base_position, self._log.next_position)

    async def seal(self, positions: BitMap64) -> None:
        """Return when these positions, which the log has, are in sealed segments. Raises `StoreUnwritable`."""
        log = self._log
        end = 0 if self.are_sealed(positions) else log.next_position
        while log.active.base_position < end or any(segment.sealing for segment in log.segments):
            if log.unwritable is not None:
                raise StoreUnwritable(log.unwritable)
            if log.active.base_position < end:
                log.begin_segment()
            await asyncio.sleep(_POLL_S)

    async def _erase_in(self, segment: Segment, positions: BitMap64) -> int:
        log, files = self._log, self._log.files
        if not await asyncio.to_thread(_holds_any, segment, positions):
            return 0
        free, _ = files.free_bytes(log.directory)
        if free < 2 * segment.size + log.settings.free_bytes_min:
            raise StoreUnwritable(f"the disk has {free} bytes free: too few to write {segment.path.name} again")
        try:
            old = self._reader.known_index(segment) or await asyncio.to_thread(self._reader.read_index, segment)
        except PositionGone:  # retention was faster
            return 0
        writer, erased = await asyncio.to_thread(_rewrite, files, segment, old, positions, log.settings)
        if segment not in log.segments:  # retention was faster
            await asyncio.to_thread(writer.discard)
            return 0
        segment.index = old
        new = segment.rewritten(writer.size, writer.index.last_store_time_ms)
        new.index = writer.index
        before, rename = partial(self._drop_index, segment), partial(files.rename, writer.path, segment.path)
        if not await self._replacing.replace(segment, new, before, rename):
            await asyncio.to_thread(writer.discard)
            return 0
        # Only now: a power cut that left the new index beside the old file would leave what looks like damage.
        if new in log.segments:
            files.rename(writer.index_path, new.index_path)
            new.index = None
        else:
            files.remove(writer.index_path)
        logger.info("wrote segment %s again: %d messages erased", segment.path.name, erased)
        return erased

    def _drop_index(self, segment: Segment) -> None:
        self._log.files.remove(segment.index_path)
        self._log.files.sync_dir(self._log.directory)

    def _forget_kept(self, segment: Segment) -> None:
        """What was kept of the segment before may hold what is erased."""
        if drop_side_files(self._log.files, segment):
            self._log.files.sync_dir(self._log.directory)


def remove_scratch(files: Files, directory: Path) -> None:
    """Remove what was being written in a segment's place when a crash came."""
    suffixes = (SCRATCH, SCRATCH_INDEX, stand_in.SCRATCH, stand_in.SCRATCH_INDEX, repair.SCRATCH)
    files.remove_ending(directory, (*suffixes, *(f"{suffix}.tmp" for suffix in suffixes)))
