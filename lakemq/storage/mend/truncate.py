"""Cutting what a log has beyond that of its leader: by a follower, before it opens its log.

The log ends with a whole frame then, as if the rest had never come: its state is what a start makes of the frames that
stay, from the state on that begins their segment. What is cut may have been acknowledged, where its leader waited for
no follower: so it is kept in a file beside the log, frame by frame, until the operator removes it or others need the
room. `storage/log/cutting.py` has the steps on disk.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from lakemq.model.names import HALF_TOPIC
from lakemq.storage.disk.files import Files
from lakemq.storage.log.cutting import Cut, begin_cut, finish_cut
from lakemq.storage.log.positions import Reserved, note_given, read_reserved
from lakemq.storage.mend.closed_log import Border, ClosedLog
from lakemq.storage.segment.frame import KIND_MESSAGES, LogEpoch, Meta
from lakemq.storage.segment.scan import CHUNK_BYTES, Broken, scan

logger = logging.getLogger(__name__)
KEPT = re.compile(r"cut-(\d+)-(\d+)(?:-(\d+))?\.frames")
_OWN_RECORDS = "RMQ_SYS_"


class CutRefused(Exception):
    """The log may not be cut there, and stays as it is. Says why."""


@dataclass
class _Tail:
    """What is cut: counted, and handed on to be kept, as long as there is room for it."""

    closed: ClosedLog
    border: Border
    room_bytes: int
    positions: int = 0
    messages: int = 0
    kept_bytes: int = 0
    kept_positions: int = 0

    def frames(self) -> Iterator[bytes]:
        """The frames that are kept, as they stand; all are counted."""
        files, (first, offset, _) = self.closed.files, self.border
        has_room = True
        for segment in [each for each in self.closed.segments if each.base_position >= first.base_position]:
            size = files.size(segment.open())
            try:
                for at, meta, _ in scan(segment, offset, size):
                    self._count(meta)
                    has_room = has_room and self.kept_bytes + meta.frame_bytes <= self.room_bytes
                    if has_room:
                        yield segment.read(at, meta.frame_bytes)
                        self.kept_bytes += meta.frame_bytes
                        self.kept_positions = self.positions
            except Broken as broken:  # what no start would have read either
                logger.warning("cut at a bad frame of segment %s too: %s", segment.path.name, broken)
                return
            finally:
                segment.close()
            offset = 0

    def _count(self, meta: Meta) -> None:
        self.positions += meta.count
        if meta.kind == KIND_MESSAGES:
            self.messages += sum(run.count for run in meta.runs if not _is_own_record(run.topic))


def _is_own_record(topic: str) -> bool:
    return topic.startswith(_OWN_RECORDS) and topic != HALF_TOPIC


def cut_log(closed: ClosedLog, position: int, floor: int, leaders: Reserved, kept_bytes_max: int) -> Cut | None:
    """Cut the log where it has more than up to `position`; a frame that this is within goes too. None: it hasn't.

    `floor`: nothing below may be cut. `leaders`: the epoch in which its leader gives positions, and up to where. The
    files of all that was cut hold `kept_bytes_max` together; where that is too little the oldest go, and of this cut
    what comes first is kept. Whoever holds the directory's lock may call it; on disk on return. Raises `CutRefused`,
    `LogDamaged`, `OSError`: then the log is as it was, or the next start makes the cut.
    """
    files, directory, end = closed.files, closed.directory, closed.history.end
    if position >= end:
        return None
    if position < closed.min_position:
        raise CutRefused(f"it would have to be cut at position {position}, and begins with {closed.min_position}")
    border = closed.border(position)
    if border.position < floor:
        raise CutRefused(f"it would have to be cut at position {border.position}, and may not be below {floor}")
    cut = _keep(closed, border, kept_bytes_max)
    now = closed.identity.now
    reserved = read_reserved(files, directory, now.log_id) or Reserved(now.epoch, end)
    given = Reserved(*(max(each) for each in zip(reserved, (now.epoch, end), leaders, strict=True)))
    note_given(files, directory, LogEpoch(now.log_id, given.epoch), given.bound)
    begin_cut(files, directory, cut)
    finish_cut(files, directory)
    _let_go(files, directory, cut, kept_bytes_max)
    return cut


def _keep(closed: ClosedLog, border: Border, bytes_max: int) -> Cut:
    """Have what is cut kept in a file, on disk on return, if it may have a byte."""
    files, directory, epoch = closed.files, closed.directory, closed.identity.epoch_of(border.position)
    tail = _Tail(closed, border, bytes_max)
    kept = ""
    if bytes_max:
        kept = _write(files, directory, f"cut-{epoch}-{border.position}", tail.frames())
    else:
        for _ in tail.frames():
            pass
    whose = border.segment.base_position, border.offset, border.position, epoch
    return Cut(*whose, tail.positions, tail.messages, kept, tail.kept_positions)


def _write(files: Files, directory: Path, begin: str, frames: Iterable[bytes]) -> str:
    """Write a file whose name begins so, beside others of that begin; but not what one of these holds already, as where
    a cut could not be made. Returns the name of the file that holds it."""
    names = set(files.names(directory))
    numbered = (f"{begin}.frames" if number == 1 else f"{begin}-{number}.frames" for number in count(1))
    before: list[str] = []
    for name in numbered:
        if name not in names:
            files.replace(directory / name, frames)
            same = next((each for each in before if _are_same(files, directory / each, directory / name)), name)
            if same != name:
                files.remove(directory / name)
            return same
        before.append(name)
    raise AssertionError("numbers don't end")


def _are_same(files: Files, one: Path, other: Path) -> bool:
    if files.size_of(one) != files.size_of(other):
        return False
    descriptors = [files.open_read(path) for path in (one, other)]
    try:
        for at in range(0, files.size_of(one), CHUNK_BYTES):
            first, second = (files.read(descriptor, CHUNK_BYTES, at) for descriptor in descriptors)
            if first != second:
                return False
        return True
    finally:
        for descriptor in descriptors:
            files.close(descriptor)


def _let_go(files: Files, directory: Path, cut: Cut, bytes_max: int) -> None:
    """Remove the oldest files of what was cut, but never this cut's, until all have no more bytes together."""
    found = [match for name in files.names(directory) if (match := KEPT.fullmatch(name))]
    found.sort(key=lambda match: [int(number or 0) for number in match.groups()])
    sizes = {match[0]: files.size_of(directory / match[0]) for match in found}
    for name in list(sizes):
        if sum(sizes.values()) > bytes_max and name != cut.kept:
            logger.warning("deleted %s: files of what was cut off the log may have %d bytes", name, bytes_max)
            files.remove(directory / name)
            del sizes[name]
