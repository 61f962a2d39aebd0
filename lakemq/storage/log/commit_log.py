"""The CommitLog: one writer, on one event loop.

All appends that are pending when the loop comes round become one frame, so the cost of a write is
paid per frame. An append's future is done when its frame is written, which survives a crash of the
process; `flushed` waits until it also survives a crash of the machine. A frame is written whole or
cut away again: a request is stored as a whole or not at all.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from lakemq.model.errors import StoreUnwritable
from lakemq.model.message import Placed
from lakemq.settings import Storage
from lakemq.storage.disk.clock import Clock
from lakemq.storage.disk.files import Files
from lakemq.storage.log import appends
from lakemq.storage.log.apart import APART_BYTES, Apart, Spread
from lakemq.storage.log.appends import A, BatchAppend, Key, OneAppend, Receiver, RowsAppend, Stored, StoredOne
from lakemq.storage.log.flush_mark import FlushMark
from lakemq.storage.log.flusher import Flusher, OnDisk
from lakemq.storage.log.lost_tail import pass_over_lost_tail
from lakemq.storage.log.positions import Positions
from lakemq.storage.log.recovery import Mend, PutOff, recover, refuse_to_mend, refuse_to_put_off
from lakemq.storage.log.retention import Retention
from lakemq.storage.log.rolling import Rolling
from lakemq.storage.log.segment_store import FrameLeftTorn, SegmentStore
from lakemq.storage.log.snapshot_pace import SnapshotPace
from lakemq.storage.log.unflushed import bring_to_disk
from lakemq.storage.segment.cache import FrameCache
from lakemq.storage.segment.frame import LogEpoch, Meta, Packed, pack_payload
from lakemq.storage.segment.rows import PayloadCodec, Row, batch_mask, rows_to_batch
from lakemq.storage.segment.segment import Frame, Segment
from lakemq.storage.segment.segment_index import Note, SegmentIndex, notes_of
from lakemq.storage.state.log_identity import FIRST_EPOCH, LogIdentity, new_log_id
from lakemq.storage.state.log_state import LogState
from lakemq.storage.state.replay import apply
from lakemq.storage.state.routing_state import CAUSE_MASK, RoutingState
from lakemq.storage.state.topics import Queue, TopicTable

logger = logging.getLogger(__name__)


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
        self._batches: deque[BatchAppend] = deque()
        self._apart = Apart()
        self._scheduled = False
        self._pace = SnapshotPace(settings, clock)

    # Opening and closing ---------------------------------------------------------------------

    def open(self, mend: Mend = refuse_to_mend, put_off: PutOff = refuse_to_put_off) -> None:
        """Recover the log, or begin one. Call on the running loop; raises `LogDamaged`, `OSError`."""
        self._loop = asyncio.get_running_loop()
        self.files.make_dirs(self.directory)
        verify_ms, memory_survives = self.settings.verify_ms, self.settings.memory_survives
        found = recover(self.files, self.directory, verify_ms, memory_survives, mend, put_off)
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
        self._pace.begin(self.active.size)
        self._rolling = Rolling(self._store, self.state, self._apart, self.flushed, self.now_ms, self._rolled)

    async def close(self) -> None:
        """Write what is pending, bring it to disk and leave a snapshot."""
        while (
            self._ones
            or self._rows
            or self._batches
            or self._rolling.running
            or self._apart.running
            or self._positions.running
        ):
            self._write_pending()
            if self._apart.running:
                await asyncio.wait([self._apart.running])
            await self._flush_or_fail()
        if await self._flush_or_fail():
            self._store.snapshot(self.active, self._store.freeze_index(self.state))
            self._positions.settle(self.next_position)
        self.release()

    def release(self) -> None:
        """Give the files and the threads back without a further write, as a crash would."""
        self._apart.close()
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

    def sync_one_for(self, row: Row, queue: Queue, receiver: Receiver[StoredOne]) -> None:
        """`append_one_for`, but `receiver` is told once the message is on disk; if that fails, `StoreUnwritable`."""
        self.append_one_for(row, queue, OnDisk(self.flusher, receiver))

    def append_batch(
        self,
        batch: pa.RecordBatch,
        groups: list[tuple[Queue, int]],
        body_bytes: int,
        key: Key | None = None,
        packed: Packed | None = None,
        spread: Spread | None = None,
    ) -> asyncio.Future[Stored]:
        """Store a batch of `STORED` columns, as a frame of its own; otherwise like `append`. `packed`: what `pack`
        made of it, in another thread. With a `spread` the key's note says of each message where it is.

        Its `Stored.placed` has one entry a group: the group's first row.
        """
        future: asyncio.Future[Stored] = self._loop.create_future()
        self._batches.append(BatchAppend(batch, groups, body_bytes, future, key, packed, spread))
        self._schedule()
        return future

    def pack(self, batch: pa.RecordBatch, body_bytes: int) -> Packed:
        """The batch's payload, for `append_batch`. Any thread may call it."""
        return pack_payload(self._codec.encode(batch, body_bytes))

    def flushed(self) -> asyncio.Future[None]:
        """Done when everything written by now is on disk."""
        return self.flusher.wait(self.next_position)

    @property
    def backlogged(self) -> bool:
        """Whether more waits for the disk than the bound allows: produce should wait for a flush."""
        return self.flusher.dirty_bytes > self.flusher.dirty_bytes_max

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._write_pending)

    def _write_pending(self) -> None:
        self._scheduled = False
        if self._rolling.running or self._apart.running or not self._has_positions():
            return
        full = self.active.size >= self.settings.segment_bytes or self.active_index.is_crowded
        if full and self.unwritable is None:
            self.begin_segment()
            return
        ones, self._ones = self._ones, []
        rows, self._rows = self._rows, []
        if ones and (rows or sum([len(one.row[1]) for one in ones]) > self.settings.frame_bytes_max // 4):
            rows = [*map(appends.as_rows, ones), *rows]
        elif ones:
            self._attempt(self._write_ones, ones)
        if rows:
            group, *later = appends.in_frames(rows, min(APART_BYTES, self.settings.frame_bytes_max // 2))
            self._attempt(self._write_rows, group)
            # What else is there may take long as well: others have their turn first.
            self._rows = [request for group in later for request in group] + self._rows
        self._write_batches()
        if self._rows or self._batches:
            self._schedule()

    def _write_batches(self) -> None:
        written = 0
        while self._batches and written < APART_BYTES:
            request = self._batches.popleft()
            written += request.body_bytes
            if request.body_bytes > APART_BYTES:
                self._attempt(self._write_apart, [request])
                return
            self._attempt(self._write_batch, [request])

    def _has_positions(self) -> bool:
        """Whether all that is pending may be written, or must be refused; else it waits until it may."""
        end = self.next_position + len(self._ones)
        if self._rows or self._batches:
            end += appends.count(self._rows, self._batches)
        return end <= self._positions.bound or self.unwritable is not None or self._positions.ensure(end)

    def _positions_changed(self, again: bool) -> None:
        # A log that is full for another reason doesn't take writes again for more positions.
        if again or self._positions.failure is not None:
            self.full = self._positions.failure or self.retention.no_room()
        self._write_pending()

    def _attempt(self, write: Callable[[list[A]], None], requests: list[A]) -> None:
        if self.topics.deleted and not (requests := appends.refuse_deleted(requests, self.topics.deleted)):
            return
        try:
            write(requests)
        except OSError as error:
            if isinstance(error, FrameLeftTorn):
                self.flusher.fail(str(error))
            self.full = f"the log can't be written: {error}"
            logger.error("%s", self.full)  # noqa: TRY400  a full disk needs no traceback
            appends.refuse(requests, StoreUnwritable(self.full))
        except StoreUnwritable as error:
            appends.refuse(requests, error)
        except Exception as error:
            logger.exception("a frame could not be made")
            appends.refuse(requests, error)

    def _write_ones(self, ones: list[OneAppend]) -> None:
        groups = appends.ones_by_queue(ones)
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
        rows, groups, results = appends.lay_out(requests, self.next_position)
        mask, batch = rows_to_batch(rows)
        notes = [(r.key, placed) for r, placed in zip(requests, results, strict=True) if r.key is not None]
        body_bytes = sum([request.body_bytes for request in requests])
        store_time_ms = self._write(batch, mask, body_bytes, groups, notes)
        for request, placed in zip(requests, results, strict=True):
            if not request.future.done():
                request.future.set_result(Stored(placed, store_time_ms))

    def _write_batch(self, requests: list[BatchAppend]) -> None:
        (request,) = requests
        placed = appends.place_groups(request.groups, self.next_position)
        notes = appends.notes_for(request, placed)
        mask, size = batch_mask(request.batch), request.body_bytes
        store_time_ms = self._write(request.batch, mask, size, request.groups, notes, request.packed)
        if not request.future.done():
            request.future.set_result(Stored(placed, store_time_ms))

    def _write_apart(self, requests: list[BatchAppend]) -> None:
        """`_write_batch` of a large frame: all that takes long happens in a thread, and what else is pending waits."""
        (request,) = requests
        if self.unwritable is not None:
            raise StoreUnwritable(self.unwritable)
        batch, groups, store_time_ms = request.batch, request.groups, self.now_ms()
        placed = appends.place_groups(groups, self.next_position)
        place = self.next_position, store_time_ms, batch.num_rows, batch_mask(batch)
        log = self.state.identity.now

        def write() -> tuple[int, Meta]:
            notes = appends.encode_notes(appends.notes_for(request, placed))
            packed = request.packed or self.pack(batch, request.body_bytes)
            return self._store.write_messages(log, *place, groups, notes, packed)

        def enter(requests: list[BatchAppend]) -> None:
            offset, meta = self._apart.result()
            self._enter(offset, meta, batch, groups)
            if not request.future.done():
                request.future.set_result(Stored(placed, store_time_ms))

        def written() -> None:
            self._attempt(enter, requests)
            self._write_pending()

        self._apart.begin(write, written)

    def _write(
        self,
        batch: pa.RecordBatch,
        mask: int,
        body_bytes: int,
        groups: list[tuple[Queue, int]],
        keyed: list[tuple[Key, list[Placed]]],
        packed: Packed | None = None,
    ) -> int:
        """Write one frame of messages and make it readable; returns its store time."""
        if self.unwritable is not None:
            raise StoreUnwritable(self.unwritable)
        store_time_ms = self.now_ms()
        notes = appends.encode_notes(keyed) if keyed else b""
        payload = packed or self._codec.encode(batch, body_bytes)
        place = self.next_position, store_time_ms, batch.num_rows, mask
        offset, meta = self._store.write_messages(self.state.identity.now, *place, groups, notes, payload)
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

    def begin_segment(self) -> None:
        """Begin a new segment once all that is written by now is on disk; nothing is written meanwhile."""
        self._rolling.begin()

    def _rolled(self, error: OSError | None) -> None:
        if error is None:
            self._pace.begin(self.active.size)
        else:
            self.full = f"a new segment can't be begun: {error}"
            logger.error("%s", self.full)
        self._write_pending()

    def _prepare_flush(self) -> Callable[[], None]:
        segment = self.active
        descriptor, size = segment.open(), segment.size
        dump = self._store.freeze_index(self.state) if self._pace.due(size) else None

        def flush() -> None:
            self.files.sync(descriptor)
            self._mark.set(segment, size)
            if dump is not None:
                self._store.snapshot(segment, dump)

        return flush

    # Retention -------------------------------------------------------------------------------

    def retain(self) -> int:
        """Remove the old segments that may go; returns how many went."""
        full = self._positions.try_again(self.next_position) or self.retention.no_room()
        if full is None and self.full is not None:
            logger.info("the log takes writes again")
        self.full = full
        removed = self.retention.retain(self.state)
        self.routing.tidy(self.min_position)
        return removed
