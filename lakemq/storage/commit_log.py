"""The CommitLog: one writer, on one event loop.

All appends that are pending when the loop comes round become one frame, so the cost of a write is
paid per frame. An append's future is done when its frame is written, which survives a crash of the
process; `flushed` waits until it also survives a crash of the machine. A frame is written whole or
cut away again: a request is stored as a whole or not at all.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from lakemq.model.errors import StoreUnwritable
from lakemq.model.message import Placed
from lakemq.settings import Storage
from lakemq.storage.appends import (
    BatchAppend,
    Key,
    OneAppend,
    Receiver,
    RowsAppend,
    Stored,
    StoredOne,
    as_rows,
    in_frames,
    ones_by_queue,
    place,
    refuse,
    rows_by_queue,
)
from lakemq.storage.cache import FrameCache
from lakemq.storage.clock import Clock
from lakemq.storage.files import Files
from lakemq.storage.flush_mark import FlushMark
from lakemq.storage.flusher import Flusher
from lakemq.storage.frame import LogEpoch, Meta
from lakemq.storage.log_identity import FIRST_EPOCH, LogIdentity, new_log_id
from lakemq.storage.log_state import LogState
from lakemq.storage.lost_tail import pass_over_lost_tail
from lakemq.storage.positions import Positions
from lakemq.storage.recovery import recover
from lakemq.storage.replay import apply
from lakemq.storage.retention import Retention
from lakemq.storage.routing_state import CAUSE_MASK, RoutingState
from lakemq.storage.rows import PayloadCodec, Row, batch_mask, rows_to_batch
from lakemq.storage.segment import Frame, Segment
from lakemq.storage.segment_index import Note, SegmentIndex, notes_of
from lakemq.storage.segment_store import FrameLeftTorn, SegmentStore
from lakemq.storage.topics import Queue, TopicTable
from lakemq.storage.unflushed import bring_to_disk

logger = logging.getLogger(__name__)

A = TypeVar("A", OneAppend, RowsAppend, BatchAppend)


class CommitLog:
    """The log in `settings.data_dir / "commitlog"`. `open` before anything else; not thread-safe:
    everything but reading segments happens on the loop that called `open`."""

    def __init__(self, settings: Storage, files: Files, clock: Clock) -> None:
        self.settings = settings
        self.files = files
        self.directory: Path = settings.data_dir / "commitlog"
        self.state = LogState()
        self._store = SegmentStore(files, self.directory)
        self.cache = FrameCache(settings.cache_bytes)
        self.compacted_position = 0
        self.torn_bytes = 0
        self.full: str | None = None
        self.on_notes: Callable[[list[Note]], None] = lambda notes: None
        self._clock = clock
        self.retention = Retention(settings, files, self.directory, self._store, clock)
        self._positions = Positions(files, self.directory, self._positions_changed)
        self._codec = PayloadCodec(settings.compression, settings.compression_body_bytes_min)
        self._store_time_ms = 0
        self._ones: list[OneAppend] = []
        self._rows: list[RowsAppend] = []
        self._batches: list[BatchAppend] = []
        self._scheduled = False
        self._rolling = False
        self._snapshot_bytes = 0
        self._snapshot_ms = 0

    # Opening and closing ---------------------------------------------------------------------

    def open(self) -> None:
        """Recover the log, or begin one. Call on the running loop; raises `LogDamaged`, `OSError`."""
        self._loop = asyncio.get_running_loop()
        self.files.make_dirs(self.directory)
        verify_ms, memory_survives = self.settings.verify_ms, self.settings.memory_survives
        found = recover(self.files, self.directory, verify_ms, memory_survives)
        self._store.segments, self.state, self.torn_bytes, mark = found
        if not self.segments:
            self.files.sync_above(self.directory)
            self.identity.begin(LogEpoch(new_log_id(), FIRST_EPOCH), 0)
            self._positions.open(self.identity.now, 0)
            self._store.begin(0, self.state, self.now_ms())
        else:
            self._store_time_ms = self.active.last_store_time_ms
            bring_to_disk(self.files, self.active, mark)
            pass_over_lost_tail(self.files, self._store, self.state, memory_survives, self.now_ms())
            self._positions.open(self.identity.now, self.next_position)
            self._store.set_min_offsets(self.topics)
        self.retention.open(self._store_time_ms or None)
        self._mark = FlushMark(self.files, self.directory)
        self._mark.set(self.active, self.active.size)
        self.flusher = Flusher(self._prepare_flush, self.settings, self.next_position)
        self._snapshot_bytes = self.active.size
        self._snapshot_ms = self._clock.now_ms()

    async def close(self) -> None:
        """Write what is pending, bring it to disk and leave a snapshot."""
        while self._ones or self._rows or self._batches or self._rolling or self._positions.running:
            self._write_pending()
            await self._flush_or_fail()
        if await self._flush_or_fail():
            self._store.snapshot(self.active, self._store.dump_index(self.state))
            self._positions.settle(self.next_position)
        self.release()

    def release(self) -> None:
        """Give the files and the thread back without a further write, as a crash would."""
        self.flusher.close()
        self._positions.close()
        self._mark.close()
        self._store.close()

    async def _flush_or_fail(self) -> bool:
        """Whether everything written by now is on disk; it is not when a flush has failed."""
        try:
            await self.flushed()
        except StoreUnwritable:
            return False
        finally:
            await asyncio.sleep(0)  # for the callbacks of those who waited too: one may begin a segment
        return True

    # What there is ---------------------------------------------------------------------------

    @property
    def identity(self) -> LogIdentity:
        """Which log this is, and in which epoch."""
        return self.state.identity

    @property
    def topics(self) -> TopicTable:
        """All topics."""
        return self.state.topics

    @property
    def routing(self) -> RoutingState:
        """What waits to be routed."""
        return self.state.routing

    @property
    def segments(self) -> list[Segment]:
        """All segments, ascending."""
        return self._store.segments

    @property
    def written(self) -> tuple[int, int]:
        """Frames of messages written since the process began, and their bytes."""
        return self._store.frames_written, self._store.bytes_written

    @property
    def active(self) -> Segment:
        """The segment that is written."""
        return self.segments[-1]

    @property
    def active_index(self) -> SegmentIndex:
        """The index of the segment that is written."""
        index = self.active.index
        assert index is not None
        return index

    @property
    def min_position(self) -> int:
        """The first position that the log still holds."""
        return self.segments[0].base_position

    @property
    def next_position(self) -> int:
        """The position that the next message gets."""
        return self.active_index.end_position

    @property
    def flushed_position(self) -> int:
        """Everything below is on disk."""
        return self.flusher.flushed_position

    @property
    def unwritable(self) -> str | None:
        """Why the log takes no writes now, or None."""
        return self.flusher.failure or self.full

    def now_ms(self) -> int:
        """The log's time: the clock's, but never going back."""
        self._store_time_ms = max(self._store_time_ms, self._clock.now_ms())
        return self._store_time_ms

    # Appending -------------------------------------------------------------------------------

    def append_for(self, rows: list[Row], queues: list[Queue], body_bytes: int, receiver: Receiver[Stored]) -> None:
        """`append`, but `receiver` is told at once, by whoever writes the frame."""
        self._rows.append(RowsAppend(rows, queues, body_bytes, receiver, None))
        self._schedule()

    def append(
        self, rows: list[Row], queues: list[Queue], body_bytes: int, key: Key | None = None
    ) -> asyncio.Future[Stored]:
        """Store rows, `rows[i]` in `queues[i]`, all in one frame; their bodies have `body_bytes`.

        The future fails with `StoreUnwritable` when nothing of it was stored.
        """
        future: asyncio.Future[Stored] = self._loop.create_future()
        self._rows.append(RowsAppend(rows, queues, body_bytes, future, key))
        self._schedule()
        return future

    def append_one(self, row: Row, queue: Queue) -> asyncio.Future[StoredOne]:
        """`append` of one row, for the hot path."""
        future: asyncio.Future[StoredOne] = self._loop.create_future()
        self.append_one_for(row, queue, future)
        return future

    def append_one_for(self, row: Row, queue: Queue, receiver: Receiver[StoredOne]) -> None:
        """`append_one`, but `receiver` is told."""
        self._ones.append(OneAppend(row, queue, receiver))
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._write_pending)

    def append_batch(
        self, batch: pa.RecordBatch, groups: list[tuple[Queue, int]], body_bytes: int, key: Key | None = None
    ) -> asyncio.Future[Stored]:
        """Store a batch of `STORED` columns, as a frame of its own; otherwise like `append`.

        Its `Stored.placed` has one entry a group: the group's first row.
        """
        future: asyncio.Future[Stored] = self._loop.create_future()
        self._batches.append(BatchAppend(batch, groups, body_bytes, future, key))
        self._schedule()
        return future

    def flushed(self) -> asyncio.Future[None]:
        """Done when everything written by now is on disk."""
        return self.flusher.wait(self.next_position)

    @property
    def backlogged(self) -> bool:
        """Whether more waits for the disk than the bound allows: produce should wait for a flush."""
        return self.flusher.dirty_bytes > self.settings.dirty_bytes_max

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._write_pending)

    def _write_pending(self) -> None:
        self._scheduled = False
        if self._rolling or not self._has_positions():
            return
        if self.active.size >= self.settings.segment_bytes and self.unwritable is None:
            self.begin_segment()
            return
        ones, self._ones = self._ones, []
        rows, self._rows = self._rows, []
        batches, self._batches = self._batches, []
        if ones and (rows or sum([len(one.row[1]) for one in ones]) > self.settings.frame_bytes_max // 4):
            rows = [*map(as_rows, ones), *rows]
        elif ones:
            self._attempt(self._write_ones, ones)
        for group in in_frames(rows, self.settings.frame_bytes_max // 2):
            self._attempt(self._write_rows, group)
        for batch in batches:
            self._attempt(self._write_batch, [batch])

    def _has_positions(self) -> bool:
        """Whether all that is pending may be written, or must be refused; else it waits until it may."""
        end = self.next_position + len(self._ones)
        for request in self._rows:
            end += len(request.rows)
        for request in self._batches:
            end += request.batch.num_rows
        return end <= self._positions.bound or self.unwritable is not None or self._positions.ensure(end)

    def _positions_changed(self) -> None:
        self.full = self._positions.failure or self.full
        self._write_pending()

    def _attempt(self, write: Callable[[list[A]], None], requests: list[A]) -> None:
        try:
            write(requests)
        except OSError as error:
            self.full = f"the log can't be written: {error}"
            logger.error("%s", self.full)  # noqa: TRY400  a full disk needs no traceback
            refuse(requests, StoreUnwritable(self.full))
        except StoreUnwritable as error:
            refuse(requests, error)
        except Exception as error:
            logger.exception("a frame could not be made")
            refuse(requests, error)

    def _write_ones(self, ones: list[OneAppend]) -> None:
        groups = ones_by_queue(ones)
        rows: list[Row] = []
        for group_rows, _ in groups.values():
            rows += group_rows
        mask, batch = rows_to_batch(rows)
        position = self.next_position
        offsets = [queue.next_offset for queue in groups]
        sizes = [(queue, len(group_rows)) for queue, (group_rows, _) in groups.items()]
        store_time_ms = self._write(batch, mask, sum([len(row[1]) for row in rows]), sizes, [])
        for offset, (queue, (_, futures)) in zip(offsets, groups.items(), strict=True):
            queue_id = queue.queue_id
            for number, future in enumerate(futures):
                if not future.done():
                    future.set_result((queue_id, offset + number, position + number, store_time_ms))
            position += len(futures)

    def _write_rows(self, requests: list[RowsAppend]) -> None:
        groups = rows_by_queue(requests)
        rows: list[Row] = []
        position = self.next_position
        for queue, group in groups.items():
            queue.fill_offset = queue.next_offset
            queue.fill_position = position + len(rows)
            rows += group
        results = [place(request.queues) for request in requests]
        mask, batch = rows_to_batch(rows)
        notes = [(r.key, placed) for r, placed in zip(requests, results, strict=True) if r.key is not None]
        store_time_ms = self._write(
            batch,
            mask,
            sum([request.body_bytes for request in requests]),
            [(queue, len(group)) for queue, group in groups.items()],
            notes,
        )
        for request, placed in zip(requests, results, strict=True):
            if not request.future.done():
                request.future.set_result(Stored(placed, store_time_ms))

    def _write_batch(self, requests: list[BatchAppend]) -> None:
        (request,) = requests
        placed: list[Placed] = []
        position = self.next_position
        for queue, count in request.groups:
            placed.append(Placed(queue.queue_id, queue.next_offset, position))
            position += count
        notes = [(request.key, placed)] if request.key is not None else []
        store_time_ms = self._write(request.batch, batch_mask(request.batch), request.body_bytes, request.groups, notes)
        if not request.future.done():
            request.future.set_result(Stored(placed, store_time_ms))

    def _write(
        self,
        batch: pa.RecordBatch,
        mask: int,
        body_bytes: int,
        groups: list[tuple[Queue, int]],
        keyed: list[tuple[Key, list[Placed]]],
    ) -> int:
        """Write one frame of messages and make it readable; returns its store time."""
        if self.unwritable is not None:
            raise StoreUnwritable(self.unwritable)
        store_time_ms = self.now_ms()
        notes = json.dumps([{**key._asdict(), "placed": placed} for key, placed in keyed]).encode() if keyed else b""
        payload = self._codec.encode(batch, body_bytes)
        place = self.next_position, store_time_ms, batch.num_rows, mask
        try:
            offset, meta = self._store.write_messages(self.state.identity.now, *place, groups, notes, payload)
        except FrameLeftTorn as error:
            self.flusher.fail(str(error))
            raise
        self._enter(offset, meta, batch, groups)
        return store_time_ms

    def _enter(self, offset: int, meta: Meta, batch: pa.RecordBatch, groups: list[tuple[Queue, int]]) -> None:
        index = self.active_index
        index.add(offset, meta)
        self.cache.put((self.active.base_position, offset), Frame(meta, batch))
        for queue, count in groups:
            queue.next_offset += count
            if queue.waiters:
                queue.wake()
        if meta.columns & CAUSE_MASK or any(queue.says_something for queue, _ in groups):
            # Before anything else can happen: a snapshot that covers the frame must hold the change.
            apply(self.state, meta, batch)
        self._positions.gave(index.end_position)
        self.flusher.wrote(index.end_position, meta.frame_bytes)
        if meta.notes:
            self.on_notes(notes_of(meta))

    # Rolling, flushing and the index ---------------------------------------------------------

    def _roll(self, done: asyncio.Future[None]) -> None:
        """Begin a new segment, now that the old one is on disk whole."""
        self._rolling = False
        if done.exception() is None:
            old, dump = self.active, self._store.dump_index(self.state)
            old.end_position, old.last_store_time_ms = self.next_position, self.active_index.last_store_time_ms
            try:
                self._store.begin(self.next_position, self.state, self.now_ms())
            except OSError as error:
                self.full = f"a new segment can't be begun: {error}"
                logger.error("%s", self.full)  # noqa: TRY400  a full disk needs no traceback
            else:
                self._snapshot_bytes = self.active.size
                old.sealing = True
                self._loop.run_in_executor(None, self._store.seal, old, dump)
        self._write_pending()

    def begin_segment(self) -> None:
        """Begin a new segment once all that is written by now is on disk; nothing is written meanwhile."""
        if not self._rolling:
            self._rolling = True
            self.flushed().add_done_callback(self._roll)

    def _prepare_flush(self) -> Callable[[], None]:
        segment = self.active
        descriptor, size = segment.open(), segment.size
        dump = self._store.dump_index(self.state) if self._snapshot_due() else None

        def flush() -> None:
            self.files.sync(descriptor)
            self._mark.set(segment, size)
            if dump is not None:
                self._store.snapshot(segment, dump)

        return flush

    def _snapshot_due(self) -> bool:
        now = self._clock.now_ms()
        due = (
            self.active.size - self._snapshot_bytes >= self.settings.snapshot_bytes
            or now - self._snapshot_ms >= self.settings.snapshot_interval_ms
        )
        if due:
            self._snapshot_bytes, self._snapshot_ms = self.active.size, now
        return due

    # Retention -------------------------------------------------------------------------------

    def retain(self) -> int:
        """Remove the old segments that may go; returns how many went."""
        self._check_room()
        removed = self.retention.retain(self.state)
        self.routing.tidy(self.min_position)
        return removed

    def _check_room(self) -> None:
        full = self.retention.no_room()
        if full is None and self.full is not None:
            logger.info("the log takes writes again: there is room on the disk")
        self.full = full
