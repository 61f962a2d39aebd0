"""The log of a follower: its primary's files, byte for byte.

Nothing is appended here but frames that the primary has written, and each segment begins where the primary's does, with
the state that the primary's begins with. Applying a frame is what recovery does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from lakemq.model.errors import LakemqError, NotLeader, StoreUnwritable
from lakemq.settings import Storage
from lakemq.storage.disk.clock import Clock
from lakemq.storage.disk.files import Files
from lakemq.storage.log.appends import BatchAppend, OneAppend, RowsAppend
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.log.next_frames import NextFrame
from lakemq.storage.log.positions import NoPositions
from lakemq.storage.log.receiver import Receiver, tell_failed
from lakemq.storage.segment.frame import KIND_MESSAGES, Run
from lakemq.storage.segment.segment import Frame
from lakemq.storage.segment.segment_index import notes_of
from lakemq.storage.state.replay import begins_epoch, move_on
from lakemq.storage.state.topics import Queue

PIECE_BYTES = 256 * 1024
PIECE_FRAMES = 64
"""So much is written and applied before others have their turn."""
LARGE_BYTES = 1024 * 1024
"""What has so much is written in a thread."""


class FollowedLog(CommitLog):
    """A log that takes frames, and no appends. There has to be one in the directory as it is opened."""

    # They say it of the primary's disk.
    _frames_vouch = False

    def __init__(self, settings: Storage, files: Files, clock: Clock) -> None:
        super().__init__(settings, files, clock)
        self._positions = NoPositions(files, self.directory, lambda again: None)
        self.leader = ""
        """Who takes writes, as far as it is known."""
        self.on_epoch: Callable[[], object] = lambda: None
        """Called when another epoch has begun."""

    def _begin(self) -> None:
        raise LakemqError(f"there is nothing of the primary's log in {self.directory}")

    def _pass_over_lost_tail(self) -> bool:
        """What is lost here the primary has."""
        return False

    def begin_segment(self) -> None:
        """The next one begins where the primary's does."""

    def submit(self, append: OneAppend | RowsAppend | BatchAppend, receiver: Receiver[Any]) -> None:
        """Refuse it."""
        tell_failed(receiver, self.not_leader())

    def not_leader(self) -> NotLeader:
        """The refusal of whatever writes."""
        where = f"its primary is {self.leader}" if self.leader else "where its primary is isn't known now"
        return NotLeader(f"this is a follower, and takes no writes: {where}", self.leader)

    async def take(self, frames: Sequence[NextFrame]) -> None:
        """Write the frames, which follow the log's end, and apply them. Only one at a time may be under way.

        Raises `StoreUnwritable`: then those before the one that failed are written, and the others aren't; and nothing
        more is, until `retain` finds that there is room. After any other error none is until the log is opened again.
        """
        for piece in _pieces(frames):
            if self.unwritable is not None:
                raise StoreUnwritable(self.unwritable)
            try:
                await self._take(piece)
            except OSError as error:
                raise self._unwritten(error) from None
            except StoreUnwritable:
                raise
            except Exception as error:
                # What was written may not be applied: no snapshot may say that it is. A start does both again.
                self.flusher.fail(f"a frame could not be applied: {error!r}; restart the gateway")
                raise
            await asyncio.sleep(0)
        if self.settings.flush == "sync" or self.backlogged:
            await self.flushed()

    def until_shown(self) -> None:
        """What the state says is the primary's matter, and it may be away."""

    async def _take(self, piece: list[NextFrame]) -> None:
        first = piece[0]
        if first.state is not None:
            await self._begin_with(first, first.state)
            return
        data = [frame.data for frame in piece]
        if first.meta.frame_bytes < LARGE_BYTES:
            offset = self._store.write_frames(data)
        else:
            offset = await asyncio.to_thread(self._store.write_frames, data)
        for frame in piece:
            self._apply(offset, frame)
            offset += frame.meta.frame_bytes

    async def _begin_with(self, frame: NextFrame, state: dict[str, Any]) -> None:
        """Begin the segment that begins with this state, unless it is there already."""
        if frame.meta.first_position == self.active.base_position:
            return
        await self.flushed()
        begun = await asyncio.to_thread(self._store.make_with, frame.meta, state, (frame.data,))
        seal = self._store.go_on_with(begun)
        # It is what the frames made, but for effects that were erased before they came here.
        self.state.renew(state)
        self.on_epoch()
        self._loop.run_in_executor(None, seal)
        self._pace.begin(self.active.size)

    def _apply(self, offset: int, frame: NextFrame) -> None:
        """The frame is written there: make it readable."""
        meta, content, epoch = frame.meta, frame.content, self.identity.now
        is_gap = begins_epoch(epoch, meta)
        self.active_index.add(offset, meta)
        if meta.kind == KIND_MESSAGES:
            self.cache.put((self.active.base_position, offset), Frame(meta, content))
        self._store_time_ms = max(self._store_time_ms, meta.store_time_ms)
        move_on(self.state, meta, lambda: content)
        if meta.log != epoch:
            self.on_epoch()
        self.flusher.wrote(self.next_position, meta.frame_bytes)
        if meta.notes:
            self.on_notes(notes_of(meta))
        queues = [(queue, run.count) for run in meta.runs if (queue := self._queue(run)) is not None]
        if is_gap:  # else each queue would end within it, and show what isn't confirmed before it
            queues = [(queue, meta.count) for queue in self.topics.all_queues()]
        if self.sync_always:
            self.confirmed.hide(self.next_position, queues)
        for queue, _ in queues:
            queue.wake()

    def _queue(self, run: Run) -> Queue | None:
        topic = self.topics.find(run.topic)
        return topic.queues[run.queue_id] if topic is not None and run.queue_id < len(topic.queues) else None


def _pieces(frames: Sequence[NextFrame]) -> Iterator[list[NextFrame]]:
    """The frames in pieces: a state is one by itself."""
    piece: list[NextFrame] = []
    size = 0
    for frame in frames:
        full = size >= PIECE_BYTES or len(piece) >= PIECE_FRAMES
        if piece and (full or frame.state is not None or piece[0].state is not None):
            yield piece
            piece, size = [], 0
        piece.append(frame)
        size += frame.meta.frame_bytes
    if piece:
        yield piece
