"""Opening a log: what a crash may leave is mended, what it can't leave is refused.

A torn tail, bytes that were never flushed, is cut where its first bad frame begins; when a sound one
follows, as a power cut leaves it, the tail is kept beside. A bad frame among what was flushed, or before a
sound one while the machine has run on, a segment that is missing or
shorter than what was known to be on disk: these are damage. A damaged segment that is written no more
is mended where that can be proved (`Mend`); all other damage raises `LogDamaged` with segment and
offset. States and their letters are in docs/log_format.md.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import islice, pairwise
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from lakemq.model.errors import LogDamaged, LogVersion
from lakemq.storage.disk.files import Files
from lakemq.storage.log.cutting import finish_cut
from lakemq.storage.log.damaged_segment import DamagedSegment, Mend, PutOff, refuse_to_mend, refuse_to_put_off
from lakemq.storage.log.flush_mark import Mark, read_flush_mark
from lakemq.storage.log.torn import cut_tail, flushed_by_later_frames
from lakemq.storage.segment.frame import (
    HEADER_BYTES,
    KIND_STATE,
    VERSION,
    VERSION_AT,
    FrameError,
    Meta,
    NewerVersion,
    decode_meta,
    header_sizes,
    is_version_1,
)
from lakemq.storage.segment.scan import Broken, find_frame, read_log_epoch, scan
from lakemq.storage.segment.segment import Segment, segment_path
from lakemq.storage.segment.segment_index import PREAMBLE_BYTES, BadIndex, Extent, SegmentIndex, load, load_extent
from lakemq.storage.state.log_state import LogState
from lakemq.storage.state.replay import replay

logger = logging.getLogger(__name__)
SUFFIX = ".log"
REPAIRING = "REPAIRING"
"""A file in the log's directory while `lakemq log repair` puts other files in its segments' place: their names."""
Damages = dict[Segment, LogDamaged]


class Recovered(NamedTuple):
    """A log as it was found, mended: `segments` ascending, the last one is the one to go on with.

    Empty `segments`: there is no log yet. `mark`: what of the last one is on disk for certain; the rest
    is for `bring_to_disk`.
    """

    segments: list[Segment]
    state: LogState
    torn_bytes: int
    mark: Mark


def list_segments(files: Files, directory: Path) -> list[Segment]:
    """The segments' files in the directory, ascending. Raises `LogVersion` when a newer lakemq, or one that is too
    old, began one."""
    paths = [directory / name for name in files.names(directory) if name.endswith(SUFFIX)]
    segments = [Segment(files, path, int(path.stem)) for path in paths if path.stem.isdigit()]
    for segment in segments:
        header = segment.read(0, HEADER_BYTES)
        if is_version_1(header):
            raise LogVersion(
                f"segment {segment.path} has version 1 of the log's format, this lakemq reads version {VERSION}: let"
                " the lakemq that wrote it bring it to the lake, then begin a new log by moving the folder away"
            )
        _refuse_newer(segment, header)
    return segments


def list_segments_of_closed(files: Files, directory: Path) -> list[Segment]:
    """Those of a log that nobody has open, as the next start finds them: without one that it removes
    (`was_taken_back`). Raises `LogVersion`, `OSError`."""
    segments = list_segments(files, directory)
    if was_taken_back(files, segments):
        segments.pop()
    return segments


def _refuse_newer(segment: Segment, header: bytes) -> None:
    """A segment that a newer lakemq began would else look as if it had never been begun."""
    if len(header) < HEADER_BYTES or header[VERSION_AT] <= VERSION:
        return
    try:
        decode_meta(segment.read(0, header_sizes(header)[0]))
    except NewerVersion as error:
        raise segment.newer(0, error) from None
    except FrameError:
        pass  # what a crash tore says anything


def interrupted(files: Files, directory: Path) -> list[str]:
    """The segments that a repair, which did not come to its end, was about to replace. Raises `OSError`."""
    if not files.exists(directory / REPAIRING):
        return []
    return files.read_whole(directory / REPAIRING).decode().split("\n")


def recover(
    files: Files,
    directory: Path,
    verify_ms: int,
    memory_survives: bool = True,
    mend: Mend = refuse_to_mend,
    put_off: PutOff = refuse_to_put_off,
    frames_vouch: bool = True,
) -> Recovered:
    """Open the log in `directory`; raises `LogDamaged`.

    What was written since the last snapshot is verified in full. Of the rest, as much as
    `verify_ms` allows, newest first; reads verify what they read. `memory_survives`: what was written is
    lost in no other way than by the machine's end. `frames_vouch`: what frames say was on disk was on this one.
    A cut that had begun is made first.
    """
    finish_cut(files, directory)
    segments = list_segments(files, directory)
    try:
        return _recover(files, directory, segments, verify_ms, memory_survives, (mend, put_off), frames_vouch)
    except BaseException:
        for segment in segments:
            segment.close()
        raise


def _recover(
    files: Files,
    directory: Path,
    segments: list[Segment],
    verify_ms: int,
    memory_survives: bool,
    seams: tuple[Mend, PutOff],
    frames_vouch: bool,
) -> Recovered:
    if interrupted(files, directory):
        raise LogDamaged("lakemq log repair did not come to its end: run it once more")
    mark = read_flush_mark(files, directory)
    torn = _drop_unborn(files, segments, mark)
    flushed = _flushed_bytes(directory, segments, mark)
    damaged = _check_all_sealed(files, directory, segments)
    state = LogState()
    if segments:
        is_same_run = memory_survives and mark.boot == files.boot_id()
        torn += _open_last(files, segments[-1], state, flushed, is_same_run, frames_vouch)
        _verify_newest(segments, verify_ms, damaged, lambda why, end: seams[1](why, end, state))
        _mend_all(files, segments, damaged, state, seams[0])
    return Recovered(segments, state, torn, mark)


def _drop_unborn(files: Files, segments: list[Segment], mark: Mark) -> int:
    """A crash while the log rolls leaves a last segment without its state frame, or one that the log then did without
    (`was_taken_back`): it never was."""
    if not segments or (mark.size and mark.base_position == segments[-1].base_position):
        return 0
    last = segments[-1]
    size = files.size(last.open())
    try:
        next(scan(last, 0, size), None)
    except Broken:
        if find_frame(last, 0, size, last.base_position) is not None or files.exists(last.index_path):
            return 0
    else:
        if size and not was_taken_back(files, segments):
            return 0
    logger.warning("segment %s was never begun; removed its %d bytes", last.path.name, size)
    last.close()
    files.remove(last.path)
    segments.pop()
    return size


def was_taken_back(files: Files, segments: list[Segment]) -> bool:
    """Whether the last segment is one that could not be begun and was removed, and a power cut brought it back: it
    holds a state alone, no message, and the one before was written on. Raises `LogVersion`, `OSError`."""
    if len(segments) < 2:
        return False
    before, last = segments[-2:]
    base, size = last.base_position, files.size(before.open_read())
    extent = _known_extent(files, before)
    end, offset = before.base_position, 0
    if extent is not None and extent.covered_bytes <= size:
        end, offset = extent.end_position, extent.covered_bytes
    try:
        with suppress(Broken):
            if [scanned.meta.kind for scanned in islice(scan(last, 0, files.size(last.open_read())), 2)] != [
                KIND_STATE
            ]:
                return False
            for at, meta, _ in scan(before, offset, size):
                if end >= base:
                    break
                end, offset = meta.first_position + meta.count, at + meta.frame_bytes
    finally:
        before.close()
        last.close()
    return end > base or (end == base and offset < size)


def _check_all_sealed(files: Files, directory: Path, segments: list[Segment]) -> Damages:
    """Bring all sealed segments' extents; those that are damaged. Each that is missing is added to the segments."""
    damaged: Damages = {}
    for segment, following in pairwise(list(segments)):
        next_base = following.base_position
        try:
            _check_sealed(files, segment, next_base)
        except LogDamaged as why:
            damaged[segment] = why
            continue
        end = segment.end_position
        if end == next_base:
            continue
        why = segment.damaged(
            segment.size, f"it ends with position {end}, but the next segment begins with {next_base}"
        )
        if end > next_base:
            raise why
        missing = Segment(files, segment_path(directory, end), end)
        segments.insert(segments.index(following), missing)
        damaged[missing] = why
    return damaged


def _mend_all(files: Files, segments: list[Segment], damaged: Damages, state: LogState, mend: Mend) -> None:
    """Have all damaged segments mended, the oldest first: each begins as the one before it ends."""
    before: Segment | None = None
    for segment, following in pairwise(segments):
        if segment in damaged:
            mend(DamagedSegment(segment, following, before, state, damaged[segment], segments[-1].last_store_time_ms))
            _check_sealed(files, segment, following.base_position)
            if segment.end_position != following.base_position:
                raise segment.damaged(segment.size, f"mended, it ends with position {segment.end_position}")
        before = segment


def _check_sealed(files: Files, segment: Segment, next_base: int) -> None:
    """Bring a sealed segment's extent, from its index or else from the segment itself."""
    size = files.size(segment.open())
    extent = _known_extent(files, segment)
    if extent is not None and extent.covered_bytes > size:
        segment.close()
        raise segment.damaged(size, f"{extent.covered_bytes} bytes were flushed, {size} are there")
    if extent is None or extent.covered_bytes != size or extent.end_position != next_base:
        make_index(files, segment, size)
    else:
        segment.end_position, segment.size = extent.end_position, size
        segment.last_store_time_ms = extent.last_store_time_ms
    segment.close()


def sealed_index(files: Files, segment: Segment) -> SegmentIndex:
    """A sealed segment's index: its file's, or made again when that can't be used.

    Raises `LogDamaged`, and `OSError` when the segment can't be read.
    """
    try:
        index = load(files.read_whole(segment.index_path))
    except (BadIndex, OSError, ValueError, KeyError, TypeError) as error:
        logger.warning("the index of segment %s can't be used: %s", segment.path.name, error)
    else:
        if index.extent() == segment.extent():
            return index
    return make_index(files, segment, segment.size)


def _known_extent(files: Files, segment: Segment) -> Extent | None:
    """What the segment's index file covers, or None when there is none of this segment."""
    try:
        extent = load_extent(files.read_whole(segment.index_path, PREAMBLE_BYTES))
    except (BadIndex, OSError):
        return None
    return extent if extent.base_position == segment.base_position else None


def make_index(files: Files, segment: Segment, size: int) -> SegmentIndex:
    """Make a sealed segment's index from its frames: all of them must be sound. Raises `LogDamaged`, `OSError`."""
    state, index = LogState(), SegmentIndex(segment.base_position)
    try:
        _read_frames(segment, index, state, size)
    except Broken as broken:
        raise segment.damaged(broken.offset, broken.reason) from None
    index.state = state.dump()
    try:
        files.replace(segment.index_path, index.dump(index.state), durable=False)
    except OSError as error:
        logger.warning("can't write the index of segment %s: %s", segment.path.name, error)
    segment.end_position, segment.size = index.end_position, size
    segment.last_store_time_ms = index.last_store_time_ms
    logger.info("made the index of segment %s again", segment.path.name)
    return index


def _flushed_bytes(directory: Path, segments: list[Segment], mark: Mark) -> int:
    """How much of the last segment is known to have been on disk."""
    last = segments[-1].base_position if segments else -1
    if mark.size and mark.base_position > last:
        missing = segment_path(directory, mark.base_position)
        raise LogDamaged(f"segment {missing.name} is missing: {mark.size} bytes of it were flushed")
    return mark.size if mark.base_position == last else 0


def _open_last(
    files: Files, segment: Segment, state: LogState, flushed: int, is_same_run: bool, frames_vouch: bool
) -> int:
    """Make the last segment, of which `flushed` bytes were on disk, ready to go on with; returns
    how many torn bytes were cut."""
    size = files.size(segment.open())
    if flushed > size:
        raise segment.damaged(size, f"{flushed} bytes were flushed, {size} are there")
    if read_log_epoch(segment, size) is None:
        raise segment.damaged(0, "its first frame can't be read")
    index = _snapshot(segment, size) or SegmentIndex(segment.base_position)
    torn = 0
    try:
        _read_frames(segment, index, state, size)
    except Broken as broken:
        later = flushed_by_later_frames(segment, broken, size, index.end_position)
        # Nothing but a power cut makes a sound frame follow a bad one, and leaves no bad one among what was flushed.
        is_damage = is_same_run and later is not None
        vouched = later or 0 if frames_vouch else 0
        if is_damage or broken.offset < max(flushed, vouched, 1):
            raise segment.damaged(broken.offset, broken.reason) from None
        torn = size - broken.offset
        cut_tail(files, segment, broken, size, keep=later is not None)
        size = broken.offset
    segment.index = index
    segment.size = size
    segment.end_position = index.end_position
    segment.last_store_time_ms = index.last_store_time_ms
    return torn


def read_segment(files: Files, segment: Segment) -> tuple[SegmentIndex, LogState]:
    """A segment's index up to its first bad frame, and the state of the log there, of a log that nobody has open: none
    of its files is changed. The index covers nothing where the segment was never begun. Raises `LogDamaged`,
    `OSError`."""
    state = LogState()
    try:
        size = files.size(segment.open_read())
        index = _snapshot(segment, size) or SegmentIndex(segment.base_position)
        with suppress(Broken):
            _read_frames(segment, index, state, size)
    finally:
        segment.close()
    return index, state


def _snapshot(segment: Segment, size: int) -> SegmentIndex | None:
    """The segment's index as far as its file goes, or None when it must be made from frames."""
    segment.index = None
    try:
        index = segment.load_index()
    except FileNotFoundError:
        return None
    except (BadIndex, OSError, ValueError, KeyError) as error:
        logger.warning("the index of segment %s can't be used (%s); scanning the segment", segment.path.name, error)
        return None
    if index.base_position != segment.base_position:
        logger.warning("the index of segment %s is another's; scanning the segment", segment.path.name)
        return None
    if index.covered_bytes > size:
        raise segment.damaged(size, f"{index.covered_bytes} bytes were flushed, {size} are there")
    return index


def _read_frames(segment: Segment, index: SegmentIndex, state: LogState, size: int) -> None:
    """Bring `index` and `state` from where the index ends up to `size`; when that raises `Broken`
    they are as of its offset."""
    if index.covered_bytes:
        state.restore(index.state)
    for offset, meta, payload in scan(segment, index.covered_bytes, size):
        if meta.first_position != index.end_position:
            raise segment.damaged(offset, f"position {meta.first_position} where {index.end_position} is due")
        try:
            _enter(index, state, offset, meta, payload)
        except (FrameError, LookupError, TypeError, ValueError, pa.ArrowException) as error:
            raise segment.damaged(offset, f"the frame is sound, but what it says is not: {error!r}") from None


def _enter(index: SegmentIndex, state: LogState, offset: int, meta: Meta, payload: memoryview) -> None:
    replay(state, meta, payload)
    if offset == 0:
        index.start({queue.key: queue.next_offset for queue in state.topics.all_queues()})
    index.add(offset, meta)


def _verify_newest(
    segments: list[Segment], verify_ms: int, damaged: Damages, put_off: Callable[[LogDamaged, int], None]
) -> None:
    """Verify frames that a snapshot vouches for, newest segment first, while time is left. Sealed segments with bad
    ones are damaged. Of the one that is written the snapshot has the state."""
    deadline = time.monotonic() + verify_ms / 1000
    for segment in reversed(segments):
        if segment in damaged:
            continue
        try:
            for _ in scan(segment, 0, segment.size):
                if time.monotonic() > deadline:
                    return
        except Broken as broken:
            why = segment.damaged(broken.offset, broken.reason)
            index = segment.index
            if index is None:
                damaged[segment] = why
            else:
                following = index.frame_number(broken.offset + 1)
                put_off(why, index.positions[following] if following < len(index.positions) else index.end_position)
        finally:
            if segment is not segments[-1]:
                segment.close()
