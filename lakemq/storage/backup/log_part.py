"""The log's part of a backup: all segments, the last one as far as it was on disk, and the parts of sinks that
it says are still to be stored."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from lakemq.model.errors import LakemqError, LogDamaged
from lakemq.storage.backup.copying import Copier
from lakemq.storage.backup.manifest import LOG, PARTS
from lakemq.storage.backup.part_names import read_part_names
from lakemq.storage.disk.files import Files
from lakemq.storage.log.dropped import DROPPED, Range, read_dropped
from lakemq.storage.log.flush_mark import read_flush_mark
from lakemq.storage.log.recovery import list_segments
from lakemq.storage.segment.scan import Broken, scan
from lakemq.storage.segment.segment import Segment
from lakemq.storage.state.log_state import LogState
from lakemq.storage.state.replay import replay


class ChangedMeanwhile(Exception):
    """What was copied does not belong together: something went on between. Another try may."""


class LogCopy(NamedTuple):
    """A copied log, the state at its end, and what was dropped of it."""

    first_position: int
    next_position: int
    state: LogState
    dropped: list[Range]


def copy_log(files: Files, directory: Path, copier: Copier) -> LogCopy:
    """Copy the log in `directory` to the folder `LOG`. Raises `ChangedMeanwhile`, `LogDamaged`, `OSError`."""
    segments = list_segments(files, directory)
    if not segments:
        raise LakemqError(f"there is no log in {directory}")
    mark = read_flush_mark(files, directory)
    for segment, following in pairwise(segments):
        _copy(segment.path, copier)
        _check_copy(files, copier, segment, following.base_position)
    last = segments[-1]
    size = mark.size if mark.base_position == last.base_position else None
    state, end, position = _read_last(files, last, size)
    _copy(last.path, copier, end)
    # After the segments: what goes meanwhile is in it before, and of what is here a start takes it back.
    dropped = read_dropped(files, directory)
    if dropped:
        _copy(directory / DROPPED, copier)
    return LogCopy(segments[0].base_position, position, state, dropped)


def _copy(path: Path, copier: Copier, size: int | None = None) -> None:
    try:
        copier.copy(path, f"{LOG}/{path.name}", size)
    except FileNotFoundError:
        raise ChangedMeanwhile(f"{path.name} was removed") from None


def _check_copy(files: Files, copier: Copier, segment: Segment, end: int) -> None:
    """Raise `LogDamaged` unless the copy of a sealed segment, which ends there, is sound: nobody may have read it for
    long."""
    copy = Segment(files, copier.root / LOG / segment.path.name, segment.base_position)
    position, offset, reason = segment.base_position, 0, "positions are missing"
    try:
        for at, meta, _ in scan(copy, 0, copy.path.stat().st_size):
            if meta.first_position != position:
                break
            position, offset = meta.first_position + meta.count, at + meta.frame_bytes
    except Broken as broken:
        position, offset, reason = -1, broken.offset, broken.reason
    if position != end:
        why = segment.damaged(offset, reason).detail
        raise LogDamaged(
            f"{why}; a gateway that is started with storage.verify_ms = 3600000 finds that, and makes good what "
            "its lake holds; lakemq log repair makes holes of the rest"
        )


def _read_last(files: Files, segment: Segment, flushed: int | None) -> tuple[LogState, int, int]:
    """The state at the end of the last segment, and its end, in bytes and as a position. Without a mark of it
    that is its last whole frame: a segment that has just begun, or a log that nobody writes."""
    descriptor = files.open_read(segment.path)
    try:
        size = files.size(descriptor) if flushed is None else flushed
    finally:
        files.close(descriptor)
    state = LogState()
    end, position = 0, segment.base_position
    try:
        for at, meta, payload in scan(segment, 0, size):
            replay(state, meta, payload)
            end, position = at + meta.frame_bytes, meta.first_position + meta.count
    except Broken as broken:
        if flushed is not None or end == 0:
            raise LogDamaged(f"segment {segment.path.name} is damaged at offset {broken.offset}: {broken}") from None
    return state, end, position


def copy_parts(directory: Path, copier: Copier) -> None:
    """Copy the parts that are staged now to the folder `PARTS`; those that were copied before are left."""
    for path in sorted(directory.glob("*.part")):
        name = f"{PARTS}/{path.name}"
        if name not in copier.copied:
            try:
                copier.copy(path, name)
            except FileNotFoundError:
                continue  # stored, or given up: whether it is missed the log says


def missing_parts(state: LogState, folder: Path) -> list[str]:
    """The parts that the log will store and that are not in `folder`, as `sink/batch/part`."""
    there = read_part_names(folder)
    wanted = {(name, sink.batch, part) for name, sink in state.sinks.by_name.items() for part in sink.left}
    return ["/".join(map(str, each)) for each in sorted(wanted - there)]
