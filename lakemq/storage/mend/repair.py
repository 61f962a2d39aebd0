"""`lakemq log repair`: make a damaged log serve again, with every frame that can be read.

What can't be read becomes a hole: a frame that says how many positions are lost, so that what
follows keeps its positions and offsets, and no position or offset is ever given again. The damaged
file stays beside the repaired one as `*.damaged`.

    A  the new files, on disk, are beside the damaged ones, as *.repair; what was lost is reserved
    B  the damaged files have their other names, and `REPAIRING` says which segments: both on disk
    C  the new files have the segments' names, on disk; then the old indexes are gone, then the mark of
       what was flushed and `REPAIRING`

A crash in A leaves the log as it was. After that a start refuses the log until it is repaired once more: which
loses nothing that the first repair would have kept.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from pyroaring import BitMap64

from lakemq.model.errors import LakemqError
from lakemq.storage.disk.files import Files
from lakemq.storage.disk.lock import DirectoryLock
from lakemq.storage.log.cutting import finish_cut
from lakemq.storage.log.flush_mark import NAME
from lakemq.storage.log.positions import WRITTEN, read_reserved, write_reserved
from lakemq.storage.log.recovery import REPAIRING, interrupted, list_segments_of_closed
from lakemq.storage.mend.verify import Damage, Stretch, commit_log_dir, known_index, stretches
from lakemq.storage.segment.frame import (
    KIND_HOLE,
    KIND_MESSAGES,
    KIND_STATE,
    FrameError,
    LogEpoch,
    Meta,
    Run,
    decode_meta,
    encode,
    encode_queue,
)
from lakemq.storage.segment.mask import Payload
from lakemq.storage.segment.segment import Segment
from lakemq.storage.segment.segment_index import SegmentIndex
from lakemq.storage.segment.side_files import DAMAGED
from lakemq.storage.state.log_identity import FIRST_EPOCH, new_log_id
from lakemq.storage.state.log_state import LogState
from lakemq.storage.state.replay import advance, encode_state, replay

SCRATCH = ".repair"


class Repaired(NamedTuple):
    """What a repair did: frames and messages kept, bytes and positions lost, and where."""

    segments_rewritten: list[str]
    frames_kept: int
    messages_kept: int
    bytes_lost: int
    positions_lost: int
    damages: list[Damage]


class _Rewriter:
    """Writes one segment again, beside the old one."""

    def __init__(self, files: Files, segment: Segment, log: LogEpoch, store_time_ms: int) -> None:
        self._files = files
        self.log = log
        self._segment = segment
        self._path = segment.path.with_suffix(SCRATCH)
        self._descriptor = files.open_append(self._path)
        self.position = segment.base_position
        self.store_time_ms = store_time_ms
        self.empty = True

    def write(self, *parts: Payload) -> None:
        """Append the parts, all of them."""
        self._files.append_all(self._descriptor, b"".join(map(bytes, parts)))
        self.empty = False

    def state(self, state: dict[str, Any]) -> None:
        """Append a state frame."""
        self.write(*encode_state(self.log, state, self.position, self.store_time_ms))

    def hole(self, position: int) -> int:
        """Skip to `position`; returns how many positions are lost."""
        lost = position - self.position
        if lost > 0:
            for first in range(self.position, position, 2**32 - 1):
                count = min(position - first, 2**32 - 1)
                self.write(*encode(self.log, KIND_HOLE, first, self.store_time_ms, count, 0, [], b"", b""))
            self.position = position
        return max(lost, 0)

    def hole_of(self, meta: Meta) -> int:
        """Skip the rows of a frame of which only the payload is lost: its queues' offsets too."""
        runs = [(run.first_queue_offset, run.count, encode_queue(run.topic, run.queue_id)) for run in meta.runs]
        lost = self.hole(meta.first_position)
        self.write(*encode(self.log, KIND_HOLE, meta.first_position, self.store_time_ms, meta.count, 0, runs, b"", b""))
        self.position = meta.first_position + meta.count
        return lost + meta.count

    def finish(self) -> None:
        """Bring the new file to disk, beside the old one."""
        self._files.sync(self._descriptor)

    def close(self) -> None:
        """Give the descriptor back."""
        self._files.close(self._descriptor)

    def keep_old(self) -> None:
        """Give the damaged file its other name."""
        path = self._segment.path
        self._files.keep(path, path.with_name(path.name + DAMAGED))

    def put_in_place(self) -> None:
        """Let the new file have the old one's name."""
        self._files.rename(self._path, self._segment.path)


class _Repair:
    """One repair of one log."""

    def __init__(self, files: Files, segments: list[Segment]) -> None:
        self._files = files
        self._state = LogState()
        self._state.identity.begin(_whose(files, segments), segments[0].base_position)
        self._store_time_ms = 0
        self._end_position = segments[0].base_position
        self._known_lost = 0
        """Positions of which it is known whose offsets went with them."""
        self._writers: list[_Rewriter] = []
        self._is_doubled = False
        """Whether two have written the log: some positions are there twice."""
        self._left_out = 0
        """Positions whose offsets no state says, as it is the other one's."""
        self._left_out_at = BitMap64()
        """Which these are: some of them others have, some become holes."""
        self._counted_twice = 0
        self.rewritten: list[str] = []
        self.frames = self.messages = self.bytes_lost = self.positions_lost = 0
        self.damages: list[Damage] = []

    def segment(self, segment: Segment, next_base: int | None) -> None:
        """Repair one segment, of which the next one begins with `next_base`: beside it, on disk."""
        size = self._files.size(segment.open())
        index = known_index(segment)
        found = [stretch for stretch in stretches(segment, size) if stretch.meta is None]
        if not found and not self._gap(segment, size, index, next_base):
            self._account(segment, size)
            segment.close()
            return
        writer = _Rewriter(self._files, segment, self._state.identity.now, self._store_time_ms)
        self._writers.append(writer)
        for stretch in stretches(segment, size):
            if stretch.meta is None:
                self._lose(writer, segment, stretch, next_base)
            elif self._has_place(writer, stretch.meta, next_base):
                self._copy(writer, segment, stretch)
            else:
                self._leave_out(writer, segment, stretch)
        self._end(writer, index, next_base)
        self._end_position = writer.position
        writer.finish()
        segment.close()
        self.rewritten.append(segment.path.name)

    def _gap(self, segment: Segment, size: int, index: SegmentIndex | None, next_base: int | None) -> bool:
        """Whether positions are missing, or are there twice, although all bytes are sound."""
        position = segment.base_position
        for stretch in stretches(segment, size):
            if stretch.meta is not None:
                if stretch.meta.first_position != position:
                    return True
                position += stretch.meta.count
        if next_base is not None:
            return next_base != position or size == 0
        return (index is not None and index.end_position > position) or size == 0

    def pass_over(self, directory: Path) -> None:
        """Have the next start go on beyond as many offsets of each queue as messages were lost: of which
        queues they were is not known of all."""
        unknown = self.positions_lost - self._known_lost + self._counted_twice
        if unknown:
            log = self._state.identity.now
            reserved = read_reserved(self._files, directory, log.log_id)
            bound = max(self._end_position + unknown, 0 if reserved is None else reserved.bound)
            log = log if reserved is None else LogEpoch(log.log_id, max(log.epoch, reserved.epoch))
            self._files.remove(directory / WRITTEN)
            write_reserved(self._files, directory, log, bound)

    def put_in_place(self, directory: Path) -> None:
        """Let the new files have the old ones' names: states B and C."""
        files = self._files
        names = {*interrupted(files, directory), *self.rewritten}
        for writer in self._writers:
            writer.keep_old()
        files.replace(directory / REPAIRING, ["\n".join(sorted(names)).encode()])
        for writer in self._writers:
            writer.put_in_place()
        files.sync_dir(directory)
        # Only now: a repair that is done again learns from them what was there behind what can be read.
        for name in names:
            files.remove((directory / name).with_suffix(".idx"))
        files.sync_dir(directory)

    def close(self) -> None:
        """Give all descriptors back."""
        for writer in self._writers:
            writer.close()

    def _account(self, segment: Segment, size: int) -> None:
        for stretch in stretches(segment, size):
            self._keep(stretch)

    def _keep(self, stretch: Stretch) -> None:
        meta = stretch.meta
        assert meta is not None
        self.frames += 1
        self._store_time_ms = max(self._store_time_ms, meta.store_time_ms)
        self._end_position = meta.first_position + meta.count
        if meta.kind != KIND_HOLE:
            self.messages += meta.count
        if meta.kind == KIND_STATE:  # it says how all queues stand
            self._known_lost = self.positions_lost - self._left_out
        replay(self._state, meta, stretch.payload)

    def _has_place(self, writer: _Rewriter, meta: Meta, next_base: int | None) -> bool:
        """Whether the frame's positions, and its offsets, are behind those before it, and end in the segment. They are
        not where two have written the log: then those that came first stay."""
        end = meta.first_position + meta.count
        if meta.first_position < writer.position or (next_base is not None and end > next_base):
            return False
        runs = meta.runs if self._is_doubled and meta.kind == KIND_MESSAGES else ()
        return all(run.first_queue_offset >= self._next_offset(run) for run in runs)

    def _next_offset(self, run: Run) -> int:
        topic = self._state.topics.find(run.topic)
        return topic.queues[run.queue_id].next_offset if topic and run.queue_id < len(topic.queues) else 0

    def _leave_out(self, writer: _Rewriter, segment: Segment, stretch: Stretch) -> None:
        """A sound frame has no place in the log: it stays in the damaged file."""
        meta = stretch.meta
        assert meta is not None
        self._is_doubled = True
        self.bytes_lost += stretch.size
        why = f"position {meta.first_position} is another frame's too: two processes have written the log"
        self.damages.append(Damage(segment.path.name, stretch.offset, stretch.size, why))
        self._begin(writer)
        # Its positions aren't holes yet: frames that come may have some of them. Which offsets its queues had given is
        # not in the log any more, so all queues go on beyond as many.
        self._left_out_at.add_range(meta.first_position, meta.first_position + meta.count)
        self.positions_lost += meta.count
        self._left_out += meta.count

    def _hole(self, writer: _Rewriter, position: int) -> None:
        """Skip to `position`, and count what isn't counted yet."""
        begin = writer.position
        self._count(writer.hole(position), begin, position)

    def _count(self, lost: int, begin: int, end: int) -> None:
        """So many positions of a range are lost, some of which a frame that was left out had."""
        twice = self._left_out_at.range_cardinality(begin, end) if end > begin else 0
        self._counted_twice += twice
        self.positions_lost += lost - twice

    def _lose(self, writer: _Rewriter, segment: Segment, stretch: Stretch, next_base: int | None) -> None:
        self.bytes_lost += stretch.size
        self.damages.append(Damage(segment.path.name, stretch.offset, stretch.size, stretch.reason))
        try:
            meta = decode_meta(segment.read(stretch.offset, stretch.size))
        except FrameError:
            return
        if meta.kind == KIND_MESSAGES and self._has_place(writer, meta, next_base):
            self._begin(writer)
            self._hole(writer, meta.first_position)
            self._count(writer.hole_of(meta), meta.first_position, meta.first_position + meta.count)
            self._known_lost += meta.count
            advance(self._state.topics, meta)

    def _begin(self, writer: _Rewriter) -> None:
        if writer.empty:
            # The segment's own state frame is lost: the one before tells how its queues stood.
            writer.state(self._state.dump())

    def _copy(self, writer: _Rewriter, segment: Segment, stretch: Stretch) -> None:
        meta = stretch.meta
        assert meta is not None
        if meta.kind != KIND_STATE:
            self._begin(writer)
        self._hole(writer, meta.first_position)
        self._keep(stretch)
        writer.store_time_ms, writer.log = self._store_time_ms, meta.log
        writer.write(segment.read(stretch.offset, stretch.size))
        writer.position = meta.first_position + meta.count

    def _end(self, writer: _Rewriter, index: SegmentIndex | None, next_base: int | None) -> None:
        """What was known to be there after the last readable frame is lost, but not given again."""
        self._begin(writer)
        if next_base is not None:
            self._hole(writer, next_base)
        elif index is not None and index.end_position >= writer.position:
            self._hole(writer, index.end_position)
            self._known_lost = self.positions_lost - self._left_out
            self._state.restore(index.state)
            writer.log = self._state.identity.now
            writer.state(index.state)
        if next_base is None and self._left_out_at:
            self._hole(writer, self._left_out_at.max() + 1)


def _whose(files: Files, segments: list[Segment]) -> LogEpoch:
    """Whose log it is, by the first frame that can be read; a new one's when none can."""
    for segment in segments:
        try:
            for stretch in stretches(segment, files.size(segment.open())):
                if stretch.meta is not None:
                    return stretch.meta.log
        finally:
            segment.close()
    return LogEpoch(new_log_id(), FIRST_EPOCH)


def _repair(files: Files, directory: Path, segments: list[Segment]) -> _Repair:
    repair = _Repair(files, segments)
    try:
        for segment, following in zip(segments, [*segments[1:], None], strict=True):
            repair.segment(segment, None if following is None else following.base_position)
        # Before anything changes: who repairs a log that is half repaired can't tell what the first one had lost.
        repair.pass_over(directory)
        if repair.rewritten or interrupted(files, directory):
            repair.put_in_place(directory)
    except BaseException:
        with suppress(OSError):
            files.remove_ending(directory, SCRATCH)
        raise
    finally:
        repair.close()
        for segment in segments:
            segment.close()
    # Last: until all is repaired, what was flushed must not pass for a torn tail.
    files.remove(directory / NAME)
    files.remove(directory / REPAIRING)
    files.sync_dir(directory)
    return repair


def repair_log(data_dir: Path, files: Files | None = None) -> Repaired:
    """Repair the log of a gateway that isn't running. Raises `LogInUse`, `LakemqError`, `OSError`.

    Doing it twice does nothing the second time.
    """
    files = files or Files()
    directory = commit_log_dir(data_dir)
    lock = DirectoryLock(files, data_dir, "lakemq log repair")
    try:
        files.remove_ending(directory, SCRATCH)
        finish_cut(files, directory)
        segments = list_segments_of_closed(files, directory)
        if not segments:
            raise LakemqError(f"the log in {data_dir} has no segments")
        repair = _repair(files, directory, segments)
    finally:
        lock.release()
    return Repaired(
        repair.rewritten, repair.frames, repair.messages, repair.bytes_lost, repair.positions_lost, repair.damages
    )
