"""A sound file in the place of a damaged segment's: its own sound frames, and the lake's rows for the others.

Only sealed segments: the state after one stands in the segment that follows. What the lake no longer has, as it was
erased or let go of there, becomes holes. The damaged file is kept beside, in quarantine.

    A  the new file and its index, on disk, are beside the damaged one, as *.stand-in
    B  the damaged file has another name too, *.log.quarantine-1, and the index is the new one's: both on disk
    C  the new file has the segment's name

A crash before C leaves the damaged segment, which is mended again; one after it leaves the new file. At no time is
nothing known of what the frames' headers said.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from pyroaring import BitMap64

from lakemq.storage.disk.files import Files
from lakemq.storage.log.damaged_segment import DamagedSegment
from lakemq.storage.log.recovery import make_index, sealed_index
from lakemq.storage.mend.verify import Stretch, known_index, stretches
from lakemq.storage.segment.frame import (
    COUNT_MAX,
    KIND_HOLE,
    KIND_MESSAGES,
    KIND_STATE,
    FrameError,
    LogEpoch,
    Meta,
    decode_meta,
    encode,
    encode_queue,
)
from lakemq.storage.segment.mask import Payload
from lakemq.storage.segment.rows import PayloadCodec, body_bytes_of
from lakemq.storage.segment.scan import scan
from lakemq.storage.segment.segment import Frame, Segment
from lakemq.storage.segment.segment_index import SegmentIndex
from lakemq.storage.segment.side_files import QUARANTINE, free_path, side_files_of
from lakemq.storage.state.log_state import LogState
from lakemq.storage.state.replay import encode_state

SCRATCH = ".stand-in"
SCRATCH_INDEX = ".stand-in-idx"

Lake = Callable[[int, int, "Borders"], Iterable[Frame]]
"""The lake's messages at positions `begin ≤ p < end`, ascending, as frames that begin at each of the borders, too;
what it has not is gone for good. Raises `LakemqError`."""
Borders = BitMap64


class StandIn(NamedTuple):
    """A sound segment that was made beside the damaged one; how many messages of it are the lake's, and which
    positions have none there: holes."""

    segment: Segment
    from_lake: int
    gone: BitMap64


def make_stand_in(
    files: Files, damaged: DamagedSegment, lake: Lake, codec: PayloadCodec, keys_since_ms: int
) -> StandIn:
    """Write the segment anew, beside it: state A. In any thread; raises `LakemqError`, `OSError`, and then nothing is
    left. Keys of requests that were stored at `keys_since_ms` or later must stay known: else it is `LogDamaged`."""
    path = damaged.segment.path
    made = Segment(files, path.with_suffix(SCRATCH), damaged.segment.base_position)
    made.index_path = path.with_suffix(SCRATCH_INDEX)
    try:
        writer = _write(files, damaged, made, lake, codec, keys_since_ms)
        make_index(files, made, writer.size)
        assert made.end_position == damaged.end_position
        _sync(files, made.index_path)
    except BaseException:
        drop_stand_in(files, made)
        raise
    finally:
        made.close()
    return StandIn(made, writer.from_lake, writer.gone)


def drop_stand_in(files: Files, made: Segment) -> None:
    """Remove what was made, and is not wanted."""
    files.remove(made.path)
    files.remove(made.index_path)


def set_aside(files: Files, segment: Segment, made: Segment) -> str | None:
    """Give the damaged file its other name, and the new index its own: state B. The other name; None for a file
    that is missing. Raises `OSError`."""
    name: str | None = None
    if files.exists(segment.path):
        there = [path for path in side_files_of(files, segment, QUARANTINE) if path.samefile(segment.path)]
        path = there[0] if there else free_path(files, segment, QUARANTINE)
        if not there:
            files.keep(segment.path, path)
        name = path.name
    files.rename(made.index_path, segment.index_path)
    files.sync_dir(segment.path.parent)
    return name


def put_in_place(files: Files, segment: Segment, made: Segment) -> str | None:
    """States B and C, of a log that nobody reads; as `set_aside`."""
    name = set_aside(files, segment, made)
    files.rename(made.path, segment.path)
    files.sync_dir(segment.path.parent)
    return name


def _sync(files: Files, path: Path) -> None:
    descriptor = files.open_append(path)
    try:
        files.sync(descriptor)
    finally:
        files.close(descriptor)


def _write(
    files: Files, damaged: DamagedSegment, made: Segment, lake: Lake, codec: PayloadCodec, keys_since_ms: int
) -> _Writer:
    """Write the file and bring it to disk."""
    files.remove(made.path)
    writer = _Writer(files, damaged, made, lake, codec)
    try:
        for piece in _sound_frames(damaged, _size_of(files, damaged.segment), writer.learn):
            writer.copy(piece)
        writer.fill(damaged.end_position)
        writer.check(keys_since_ms)
        files.sync(made.open())
    finally:
        damaged.segment.close()
    return writer


def _size_of(files: Files, segment: Segment) -> int:
    try:
        return files.size(segment.open_read())
    except FileNotFoundError:
        return 0


def _sound_frames(damaged: DamagedSegment, size: int, learn: Callable[[Meta], None]) -> Iterator[Stretch]:
    """The frames that can be read and are where they belong; `learn` is told of those whose payload alone can't."""
    segment, position = damaged.segment, damaged.segment.base_position
    log_id = damaged.state.identity.now.log_id
    for stretch in stretches(segment, size) if size else ():
        meta = stretch.meta
        if meta is None:
            try:
                meta = decode_meta(segment.read(stretch.offset, stretch.size))
            except FrameError:
                continue
            if _belongs(meta, log_id, position, damaged.end_position):
                learn(meta)
        elif _belongs(meta, log_id, position, damaged.end_position):
            position = meta.first_position + meta.count
            yield stretch


def _belongs(meta: Meta, log_id: bytes, position: int, end: int) -> bool:
    return meta.log.log_id == log_id and position <= meta.first_position <= end - meta.count


class _Writer:
    """The new file."""

    def __init__(self, files: Files, damaged: DamagedSegment, made: Segment, lake: Lake, codec: PayloadCodec) -> None:
        self._files, self._damaged, self._made, self._lake, self._codec = files, damaged, made, lake, codec
        segment = damaged.segment
        self.size = 0
        self.from_lake = 0
        self.gone = BitMap64()
        self._is_blind = False
        """Whether frames were lost of which not even the header is known."""
        self._position = segment.base_position
        self._store_time_ms = 0
        identity = damaged.state.identity
        self._epoch_of = identity.epoch_of
        self._log_id = identity.now.log_id
        self._borders = Borders([first for _, first in identity.epochs])
        self._known: dict[int, Meta] = {}
        # Of another object: this one's index may be in use.
        self._index = known_index(Segment(files, segment.path, segment.base_position))
        if self._index is not None and self._index.base_position != segment.base_position:
            self._index = None
        self._notes = {} if self._index is None else _notes_of(self._index)
        if self._index is not None:
            self._borders.update(self._index.positions.tolist())

    def learn(self, meta: Meta) -> None:
        """Of this frame, the header is sound."""
        if meta.kind == KIND_MESSAGES:
            self._known[meta.first_position] = meta
            self._borders.update((meta.first_position, meta.first_position + meta.count))

    def copy(self, stretch: Stretch) -> None:
        """Append a sound frame, having filled what is missing before it."""
        meta = stretch.meta
        assert meta is not None
        if meta.kind != KIND_STATE or meta.first_position > self._position:
            self.fill(meta.first_position)
            self._begin()
        self._append(self._damaged.segment.read(stretch.offset, stretch.size))
        self._position = meta.first_position + meta.count
        self._store_time_ms = max(self._store_time_ms, meta.store_time_ms)

    def fill(self, end: int) -> None:
        """Append what the lake has up to position `end`, and holes for what it has not."""
        if end <= self._position:
            return
        self._begin()
        for frame in self._lake(self._position, end, self._borders):
            self._holes(frame.meta.first_position)
            self._messages(frame)
        self._holes(end)

    def check(self, keys_since_ms: int) -> None:
        """Raises `LogDamaged` when keys of requests may be lost."""
        damaged, following = self._damaged, self._damaged.following
        index_is_whole = self._index is not None and self._index.end_position >= damaged.end_position
        if self._is_blind and not index_is_whole and _begins_ms(following) >= keys_since_ms:
            raise damaged.refused(
                "which idempotency keys it holds is not known, and they may still be used: a start with "
                "idempotency.window_ms = 0 gives them up"
            )
        self._begin()

    def _begin(self) -> None:
        """The segment's first frame is the state as the one before left it, where its own is lost."""
        if self.size:
            return
        position, damaged = self._damaged.segment.base_position, self._damaged
        state = _state_before(self._files, damaged, self._index)
        self._append(*encode_state(self._log(position), state, position, self._store_time_ms))

    def _messages(self, frame: Frame) -> None:
        meta, batch = frame.meta, frame.batch
        runs = [(run.first_queue_offset, run.count, encode_queue(run.topic, run.queue_id)) for run in meta.runs]
        self._store_time_ms = max(self._store_time_ms, meta.store_time_ms)
        place = KIND_MESSAGES, meta.first_position, self._store_time_ms, meta.count, meta.columns
        notes, payload = self._notes_at(meta.first_position), self._codec.encode(batch, body_bytes_of(batch))
        self._append(*encode(self._log(meta.first_position), *place, runs, notes, payload))
        self._position = meta.first_position + meta.count
        self.from_lake += meta.count

    def _holes(self, end: int) -> None:
        while self._position < end:
            begin = self._position
            number = self._borders.rank(begin)
            border = self._borders[number] if number < len(self._borders) else end
            after = min(border, end, begin + COUNT_MAX)
            place = KIND_HOLE, begin, self._store_time_ms, after - begin, 0
            self._append(*encode(self._log(begin), *place, [], self._notes_at(begin), b""))
            self.gone.add_range(begin, after)
            self._position = after

    def _notes_at(self, position: int) -> bytes:
        known = self._known.get(position)
        self._is_blind = self._is_blind or known is None
        return known.notes if known is not None else self._notes.get(position, b"")

    def _log(self, position: int) -> LogEpoch:
        return LogEpoch(self._log_id, self._epoch_of(position))

    def _append(self, *parts: Payload) -> None:
        data = b"".join(map(bytes, parts))
        self._files.append_all(self._made.open(), data)
        self.size += len(data)


def _begins_ms(segment: Segment) -> int:
    """When the segment began: what came before was stored no later."""
    _, meta, _ = next(scan(segment, 0, segment.size))
    return meta.store_time_ms


def _notes_of(index: SegmentIndex) -> dict[int, bytes]:
    """The notes of frames by position, as the index knows them: without the requests' results."""
    by_position: dict[int, list[Any]] = {}
    for note in index.notes:
        notes = by_position.setdefault(note.position, [])
        notes += [{}] * (note.number + 1 - len(notes))
        notes[note.number] = {"key": note.key, "payload": note.payload, "placed": None}
    return {position: json.dumps(notes).encode() for position, notes in by_position.items()}


def _state_before(files: Files, damaged: DamagedSegment, index: SegmentIndex | None) -> dict[str, Any]:
    """The log's state as the segment began: as the one before ended, or, of the log's first one, what of it is
    needed, where the queues stood. Raises `LogDamaged`."""
    if damaged.before is not None:
        return sealed_index(files, damaged.before).state
    state, now = LogState(), damaged.state.identity
    base = damaged.segment.base_position
    state.identity.begin(LogEpoch(now.now.log_id, now.epoch_of(base)), base)
    if base and index is None:
        raise damaged.refused("neither its state frame nor its index says where the queues stood")
    for (topic, queue_id), runs in () if index is None else index.queues.items():
        state.topics.ensure_queue(topic, queue_id).next_offset = runs.start_offset
    return state.dump()
