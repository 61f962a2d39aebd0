"""The CommitLog: one writer, on one event loop.

All appends that are pending when the loop comes round become one frame, so the cost of a write is
paid per frame. An append's future is done when its frame is written, which survives a crash of the
process; `flushed` waits until it also survives a crash of the machine. A frame is written whole or
cut away again: a request is stored as a whole or not at all.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, overload

import pyarrow as pa

from lakemq.model.errors import LakemqError, NotEnoughReplicas, StoreUnwritable
from lakemq.settings import Storage
from lakemq.storage.disk.clock import Clock
from lakemq.storage.disk.files import Files
from lakemq.storage.log.appends import BatchAppend, OneAppend, RowsAppend
from lakemq.storage.log.confirmed import Confirmed
from lakemq.storage.log.flush_mark import FlushMark
from lakemq.storage.log.flusher import Flusher, Keeps
from lakemq.storage.log.layout import Asked
from lakemq.storage.log.leased import Leased, Lost, while_leased
from lakemq.storage.log.lost_tail import pass_over_lost_tail
from lakemq.storage.log.pending import LayOut, Pending, refuse
from lakemq.storage.log.positions import Positions
from lakemq.storage.log.receiver import Receiver, Stored, StoredOne, tell_failed
from lakemq.storage.log.recovery import Mend, PutOff, recover, refuse_to_mend, refuse_to_put_off
from lakemq.storage.log.retention import Retention
from lakemq.storage.log.rolling import Rolling
from lakemq.storage.log.segment_store import FrameLeftTorn, SegmentStore
from lakemq.storage.log.snapshot_pace import SnapshotPace
from lakemq.storage.log.unflushed import bring_to_disk
from lakemq.storage.log.writer_thread import WriterThread
from lakemq.storage.segment.cache import FrameCache
from lakemq.storage.segment.content import Content, encode_content
from lakemq.storage.segment.frame import LogEpoch, Meta, Packed, pack_payload
from lakemq.storage.segment.rows import PayloadCodec
from lakemq.storage.segment.segment import Frame, Segment
from lakemq.storage.segment.segment_index import Note, SegmentIndex, notes_of
from lakemq.storage.state.log_identity import FIRST_EPOCH, LogIdentity, new_log_id
from lakemq.storage.state.log_state import LogState
from lakemq.storage.state.replay import apply
from lakemq.storage.state.routing_state import CAUSE_MASK, RoutingState
from lakemq.storage.state.topics import TOPICS_TOPIC, Queue, TopicTable

logger = logging.getLogger(__name__)


class CommitLog:
    """The log in `settings.data_dir / "commitlog"`. `open` before anything else; not thread-safe:
    everything but `open` and reading segments happens on the loop that it was given."""

    _frames_vouch = True
    """Whether it was this log's disk that frames say something of."""

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
        self.too_few: str | None = None
        """Why no promise can be made that asks for others, and nothing is taken; None: one can."""
        self.sync_always = False
        """Whether each write is answered only when it is confirmed, and consumers see only what is."""
        self.confirm_ms_max = 60_000
        """So long is waited for others."""
        self.begins_epoch: int | None = None
        """The epoch that `open` begins, beyond all positions that may have been given; None: it begins one only where
        something may be lost."""
        self.lease: Lost | None = None
        """Why nothing may be promised just now, as another may lead; None: nobody ever takes this one's place."""
        self._retired: LakemqError | None = None
        self.on_notes: Callable[[list[Note]], None] = lambda notes: None
        self._clock = clock
        self.retention = Retention(settings, files, self.directory, self._store, clock)
        self._positions = Positions(files, self.directory, self._positions_changed)
        self._codec = PayloadCodec(settings.compression, settings.compression_body_bytes_min)
        self._store_time_ms = 0
        self._pending = Pending()
        self._writer = WriterThread()
        self._scheduled = False
        self._pace = SnapshotPace(settings, clock)

    # Opening and closing ---------------------------------------------------------------------

    def open(
        self,
        mend: Mend = refuse_to_mend,
        put_off: PutOff = refuse_to_put_off,
        *,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """Recover the log, or begin one, on the loop on which it is to live, or in any thread. Raises `LogDamaged`,
        `OSError`."""
        self._loop = loop
        self.files.make_dirs(self.directory)
        verify_ms, memory_survives = self.settings.verify_ms, self.settings.memory_survives
        found = recover(self.files, self.directory, verify_ms, memory_survives, mend, put_off, self._frames_vouch)
        self._store.segments, self.state, self.torn_bytes, mark = found
        if not self.segments:
            self.files.sync_above(self.directory)
            self._begin()
        else:
            self._store_time_ms = self.active.last_store_time_ms
            bring_to_disk(self.files, self.active, mark)
            is_beyond = self._pass_over_lost_tail()
            self._positions.open(self.identity.now, self.next_position, self._loop, is_beyond)
            self._store.set_min_offsets(self.topics)
        self.retention.open(self._store_time_ms or None)
        self._mark = FlushMark(self.files, self.directory)
        self._mark.set(self.active, self.active.size)
        self.flusher = Flusher(self._prepare_flush, self.settings, self.next_position, self._loop)
        self.confirmed = Confirmed(self.flusher, self.confirm_ms_max, self._loop)
        self._pace.begin(self.active.size)
        self._rolling = Rolling(self._store, self.state, self._writer, self.flushed, self.now_ms, self._rolled)

    def _begin(self) -> None:
        self.identity.begin(LogEpoch(new_log_id(), FIRST_EPOCH), 0)
        self._positions.open(self.identity.now, 0, self._loop, is_beyond=True)
        self._store.begin(0, self.state, self.now_ms())

    def _pass_over_lost_tail(self) -> bool:
        survives, now_ms = self.settings.memory_survives, self.now_ms()
        return pass_over_lost_tail(self.files, self._store, self.state, survives, now_ms, self.begins_epoch)

    async def close(self) -> None:
        """Write what is pending, bring it to disk and leave a snapshot."""
        while self._pending or self._rolling.running or self._writer.running or self._positions.running:
            self._write_pending()
            if self._writer.running:
                await asyncio.wait([self._writer.running])
            await self._flush_or_fail()
        if await self._flush_or_fail():
            self._store.snapshot(self.active, self._store.freeze_index(self.state))
            self._positions.settle(self.next_position)
        self.release()

    def release(self) -> None:
        """Give the files and the threads back without a further write, as a crash would."""
        self._writer.close()
        self.confirmed.close()
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
    def confirmed_position(self) -> int:
        """Everything below is on disk here, and at all others that count."""
        return self.confirmed.position

    @property
    def visible_position(self) -> int:
        """Consumers may see everything below."""
        return self.confirmed.position if self.sync_always else self.next_position

    @property
    def unwritable(self) -> str | None:
        """Why the log takes no writes now, or None."""
        return self.flusher.failure or self.full

    def refusal(self) -> StoreUnwritable | None:
        """What an append is refused with now, or None."""
        if self.unwritable is not None:
            return StoreUnwritable(self.unwritable)
        if self.lease is not None and (lost := self.lease()) is not None:
            return lost
        return None if self.too_few is None else NotEnoughReplicas(self.too_few)

    def now_ms(self) -> int:
        """The log's time: the clock's, but never going back."""
        self._store_time_ms = max(self._store_time_ms, self._clock.now_ms())
        return self._store_time_ms

    def reading_ms(self) -> int:
        """`now_ms` for who only reads: a clock that was ahead for a moment leaves nothing behind."""
        return max(self._store_time_ms, self._clock.now_ms())

    # Appending -------------------------------------------------------------------------------

    @overload
    def submit(self, append: OneAppend, receiver: Receiver[StoredOne]) -> None: ...
    @overload
    def submit(self, append: RowsAppend | BatchAppend, receiver: Receiver[Stored]) -> None: ...
    def submit(self, append: OneAppend | RowsAppend | BatchAppend, receiver: Receiver[Any]) -> None:
        """Store it; `receiver` is told what became of it by who writes the frame, with `StoreUnwritable` (or what
        else kept the frame from being made) when nothing of it was stored. An `OnDisk` is told when it is on disk."""
        if self._retired is not None:
            tell_failed(receiver, self._retired)
            return
        self._pending.add(append, receiver)
        self._schedule()

    def retire(self, why: LakemqError | None) -> None:
        """Take no appends from now on, nor those that aren't written yet; None: take them again."""
        self._retired = why

    async def settled(self) -> None:
        """After `retire`: return when nothing is being written any more, also in a thread. The log grows no further."""
        while self._writer.running:
            await asyncio.wait([self._writer.running])

    @overload
    def append(self, append: OneAppend) -> asyncio.Future[StoredOne]: ...
    @overload
    def append(self, append: RowsAppend | BatchAppend) -> asyncio.Future[Stored]: ...
    def append(self, append: OneAppend | RowsAppend | BatchAppend) -> asyncio.Future[Any]:
        """`submit` with a future for the receiver."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self.submit(append, future)
        return future

    def pack(self, batch: pa.RecordBatch, body_bytes: int) -> Packed:
        """The batch's payload, for `BatchAppend.packed`. Any thread may call it."""
        return pack_payload(self._codec.encode(batch, body_bytes))

    def flushed(self) -> asyncio.Future[None]:
        """Done when everything written by now is on disk."""
        return self.flusher.wait(self.next_position)

    @property
    def backlogged(self) -> bool:
        """Whether more waits for the disk than the bound allows: produce should wait for a flush."""
        return self.flusher.dirty_bytes > self.flusher.dirty_bytes_max

    def until_confirmed(self) -> asyncio.Future[None]:
        """Done when everything written by now is confirmed; fails as `Confirmed.wait` says."""
        return self.confirmed.wait(self.next_position)

    def promise(self, sync: bool = False) -> Keeps | None:
        """Who says when an answer may be given, and that is waited for at once; `sync`: the request asks for it."""
        if sync or self.sync_always:
            return self.confirmed
        if self.settings.flush != "sync":
            return None
        return self.flusher if self.lease is None else Leased(self.flusher, self.lease)

    def until_safe(self, sync: bool = False) -> asyncio.Future[None] | None:
        """Done when everything written by now is safe: confirmed, when that is asked for; or on disk, when that is, or
        too much waits for it. None: it is, as far as anybody asks."""
        if sync or self.sync_always:
            waits = self.until_confirmed()
        else:
            waits = self.flushed() if self.settings.flush == "sync" or self.backlogged else None
        return waits if self.lease is None else while_leased(waits, self.lease)

    async def keep_promise(self, sync: bool = False) -> None:
        """Wait until it is safe. Raises `StoreUnwritable`."""
        if (waits := self.until_safe(sync)) is not None:
            await waits

    def until_shown(self) -> asyncio.Future[None] | None:
        """Done when what the state says may be shown: under `sync_always`, when it is confirmed. None: it may."""
        return self.until_confirmed() if self.sync_always else None

    def until_topics_shown(self, name: str | None = None) -> asyncio.Future[None] | None:
        """Done when what the state says of that topic may be shown, or of any: where consumers see what is confirmed
        alone, a change of one may be undone before that. None: it may."""
        topics, count = self.topics, self.topics.queue(TOPICS_TOPIC, 0).unconfirmed
        is_shown = not self.sync_always or count <= 0 or (name is not None and not topics.is_changed(name, count))
        return None if is_shown else self.until_confirmed()

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._write_pending)

    def _write_pending(self) -> None:
        self._scheduled = False
        if self._rolling.running or self._writer.running or not self._has_positions():
            return
        full = self.active.size >= self.settings.segment_bytes or self.active_index.is_crowded
        if full and self.unwritable is None:
            self.begin_segment()
            return
        for asked, lay_out in self._pending.take(self.settings.frame_bytes_max, self.topics.deleted):
            self._or_refuse(asked, partial(self._write, asked, lay_out))
        if self._pending:
            self._schedule()

    def _has_positions(self) -> bool:
        """Whether all that is pending may be written, or must be refused; else it waits until it may."""
        end = self.next_position + self._pending.count
        return end <= self._positions.bound or self.unwritable is not None or self._positions.ensure(end)

    def _positions_changed(self, again: bool) -> None:
        # A log that is full for another reason doesn't take writes again for more positions.
        if again or self._positions.failure is not None:
            self.full = self._positions.failure or self.retention.no_room()
        self._write_pending()

    def _or_refuse(self, asked: Sequence[Asked], write: Callable[[], None]) -> None:
        try:
            write()
        except OSError as error:
            refuse(asked, self._unwritten(error))
        except LakemqError as error:
            refuse(asked, error)
        except Exception as error:
            logger.exception("could not make a frame")
            refuse(asked, error)

    def _unwritten(self, error: OSError) -> StoreUnwritable:
        """A frame could not be written: take no more until there is a look at whether it can be again."""
        if isinstance(error, FrameLeftTorn):
            self.flusher.fail(str(error))
        self.full = f"the log can't be written: {error}"
        logger.error("%s", self.full)
        return StoreUnwritable(self.full)

    def _write(self, asked: Sequence[Asked], lay_out: LayOut) -> None:
        """Write one frame and make it readable. All of a large one that takes long happens in a thread, and what else
        is pending waits."""
        if (refusal := self._retired or self.refusal()) is not None:
            raise refusal
        frame = lay_out(self._codec, self.next_position)
        store_time_ms, log = self.now_ms(), self.state.identity.now
        content = frame.content
        place = self.next_position, store_time_ms, content.count, content.mask

        def write() -> tuple[int, Meta]:
            payload = frame.packed or encode_content(content, frame.body_bytes, self._codec)
            return self._store.write_messages(log, *place, frame.groups, frame.notes(), payload, content.encoding)

        def enter(written: tuple[int, Meta]) -> None:
            self._enter(*written, content, frame.groups)
            if self.lease is not None and (lost := self.lease()) is not None:
                raise lost
            frame.tell(store_time_ms)

        def written() -> None:
            self._or_refuse(asked, lambda: enter(self._writer.result()))
            self._write_pending()

        if frame.large:
            self._writer.begin(write, written)
        else:
            enter(write())

    def _enter(self, offset: int, meta: Meta, content: Content, groups: list[tuple[Queue, int]]) -> None:
        index = self.active_index
        index.add(offset, meta)
        self.cache.put((self.active.base_position, offset), Frame(meta, content))
        if self.sync_always:
            self.confirmed.hide(index.end_position, groups)
        for queue, count in groups:
            queue.next_offset += count
            if queue.waiters:
                queue.wake()
        if meta.columns & CAUSE_MASK or any(queue.says_something for queue, _ in groups):
            # Before anything else can happen: a snapshot that covers the frame must hold the change.
            apply(self.state, meta, content)
        self._positions.gave(index.end_position)
        self.flusher.wrote(index.end_position, meta.frame_bytes)
        if self.sync_always:
            # Also what no request waits for, such as what was due: consumers wait for it.
            self.confirmed.ask(index.end_position)
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
            if not self.files.still_has(descriptor, segment.path):  # no start would find what is on disk in it
                raise OSError(f"somebody has removed {segment.path}")
            self._mark.set(segment, size)
            if dump is not None:
                self._store.snapshot(segment, dump)

        return flush

    # Retention -------------------------------------------------------------------------------

    def go_on_reserving(self) -> None:
        """Reserve positions, if there was no room for that as the log was opened; on its loop."""
        self._positions.try_again(self.next_position)

    def retain(self, segments_max: int | None = None) -> int:
        """Remove the old segments that may go; returns how many went. With a bound, the caller tidies `routing`."""
        before, self.full = self.full, self._positions.try_again(self.next_position) or self.retention.no_room()
        if self.full is None and before is not None:
            logger.info("the log accepts writes again")
        removed = self.retention.retain(self.state, segments_max)
        if segments_max is None:
            self.routing.tidy(self.min_position)
        return removed
