"""`lakemq log verify`: read every byte of a log, change none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lakemq.model.errors import LakemqError
from lakemq.storage.disk.files import Files
from lakemq.storage.log.cutting import CUTTING
from lakemq.storage.log.flush_mark import read_flush_mark
from lakemq.storage.log.recovery import REPAIRING, interrupted, list_segments, list_segments_of_closed
from lakemq.storage.segment.frame import KIND_HOLE, Meta
from lakemq.storage.segment.scan import Broken, find_frame, scan
from lakemq.storage.segment.segment import Segment
from lakemq.storage.segment.segment_index import BadIndex, SegmentIndex


class Damage(NamedTuple):
    """Bytes `offset … offset + size` of a segment's file that are no sound frame."""

    segment: str
    offset: int
    size: int
    reason: str


class SegmentReport(NamedTuple):
    """What one segment holds. `next_position` follows its last message."""

    segment: str
    size: int
    frames: int
    messages: int
    base_position: int
    next_position: int
    damages: list[Damage]


class LogReport(NamedTuple):
    """What a log holds, by segment. `damages` includes what stands between segments."""

    segments: list[SegmentReport]
    damages: list[Damage]

    @property
    def sound(self) -> bool:
        """Whether every byte is readable."""
        return not self.damages

    @property
    def messages(self) -> int:
        """How many messages are readable."""
        return sum(report.messages for report in self.segments)


class Stretch(NamedTuple):
    """A sound frame (`meta`, `size` bytes at `offset`), or bytes that are none (`reason`)."""

    offset: int
    size: int
    meta: Meta | None
    payload: memoryview
    reason: str


def stretches(segment: Segment, size: int) -> Iterator[Stretch]:
    """The whole segment, front to back, as sound frames and the unreadable bytes between them."""
    offset = 0
    while offset < size:
        try:
            for at, meta, payload in scan(segment, offset, size):
                yield Stretch(at, meta.frame_bytes, meta, payload, "")
                offset = at + meta.frame_bytes
        except Broken as broken:
            following = find_frame(segment, broken.offset + 1, size)
            end = size if following is None else following
            yield Stretch(broken.offset, end - broken.offset, None, memoryview(b""), broken.reason)
            offset = end


def commit_log_dir(data_dir: Path) -> Path:
    """The log's directory; raises `LakemqError` when there is none."""
    directory = data_dir / "commitlog"
    if not directory.is_dir():
        raise LakemqError(f"there is no log in {data_dir}")
    return directory


def verify_log(data_dir: Path, files: Files | None = None) -> LogReport:
    """Read the whole log of a gateway that isn't running. Raises `LakemqError`, `OSError`."""
    files = files or Files()
    reports: list[SegmentReport] = []
    damages: list[Damage] = []
    directory = commit_log_dir(data_dir)
    if interrupted(files, directory):
        damages.append(Damage(REPAIRING, 0, 0, "lakemq log repair did not come to its end: run it once more"))
    if files.exists(directory / CUTTING):
        damages.append(Damage(CUTTING, 0, 0, "a cut did not come to its end: start the gateway, which makes it"))
    for segment in list_segments_of_closed(files, directory):
        if reports and reports[-1].next_position != segment.base_position and not reports[-1].damages:
            last = reports[-1]
            why = f"positions {last.next_position} to {segment.base_position - 1} are missing"
            damages.append(Damage(last.segment, last.size, 0, why))
        report = _verify_segment(files, segment)
        reports.append(report)
        damages += report.damages
    return LogReport(reports, damages)


def glance_at_newest(data_dir: Path, files: Files | None = None) -> Damage | None:
    """The first damage in what was on disk of the newest segment, of a log that a gateway may have open: what looks
    damaged while it is written, is read again. None where there is no log. Raises `LakemqError`, `OSError`."""
    files, directory = files or Files(), data_dir / "commitlog"
    if not directory.is_dir():
        return None
    first = _damage_of_newest(files, directory)
    return first if first is not None and _damage_of_newest(files, directory) == first else None


def _damage_of_newest(files: Files, directory: Path) -> Damage | None:
    mark = read_flush_mark(files, directory)
    newest = [each for each in list_segments(files, directory) if each.base_position == mark.base_position][-1:]
    for segment in newest:
        try:
            there = min(mark.size, files.size(segment.open_read()))
            broken = (each for each in stretches(segment, there) if each.meta is None)
            for each in broken:
                return Damage(segment.path.name, each.offset, each.size, each.reason)
            if there < mark.size:
                return Damage(segment.path.name, there, mark.size - there, "it ends before what was flushed")
        finally:
            segment.close()
    return None


def _verify_segment(files: Files, segment: Segment) -> SegmentReport:
    size = files.size(segment.open_read())
    frames = messages = 0
    position = segment.base_position
    damages: list[Damage] = []
    try:
        for stretch in stretches(segment, size):
            meta = stretch.meta
            if meta is None:
                damages.append(Damage(segment.path.name, stretch.offset, stretch.size, stretch.reason))
                continue
            if meta.first_position != position and not damages:
                why = f"position {meta.first_position} where {position} is due"
                damages.append(Damage(segment.path.name, stretch.offset, 0, why))
            frames += 1
            messages += meta.count if meta.kind != KIND_HOLE else 0
            position = meta.first_position + meta.count
    finally:
        segment.close()
    index = known_index(segment)
    if index is not None and index.end_position > position and not damages:
        why = f"positions {position} to {index.end_position - 1} were flushed and are missing"
        damages.append(Damage(segment.path.name, size, 0, why))
    return SegmentReport(segment.path.name, size, frames, messages, segment.base_position, position, damages)


def known_index(segment: Segment) -> SegmentIndex | None:
    """The segment's index file, where there is a sound one. Raises `OSError`: what can't be read now is not missing."""
    segment.index = None
    try:
        return segment.load_index()
    except (BadIndex, FileNotFoundError, ValueError, KeyError):
        return None
    finally:
        segment.index = None
