"""A real CommitLog on real files, driven step by step from synchronous tests."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from lakemq.settings import MIB, Storage
from lakemq.storage.log.appends import BatchAppend, Key, RowsAppend
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.log.receiver import Stored
from lakemq.storage.read.look_up import RowsPlan, plan_rows
from lakemq.storage.read.reader import Reader
from lakemq.storage.read.row_reader import RowReader
from lakemq.storage.segment.content import Columns
from lakemq.storage.segment.frame import LogEpoch, encode
from lakemq.storage.segment.rows import make_row
from lakemq.storage.segment.segment import Segment
from lakemq.storage.segment.slice import Slice
from lakemq.storage.state.topics import TOPICS_TOPIC, Queue, TopicRecord
from lakemq.testing import FaultyFiles, ManualClock

T = TypeVar("T")
SEGMENT_BYTES = MIB
"""The smallest segment that settings allow."""


class Message(NamedTuple):
    """A message as the log gives it back."""

    topic: str
    queue_id: int
    queue_offset: int
    position: int
    body: bytes
    store_time_ms: int


class LogHarness:
    """Opens, crashes and opens again one log; `log` and `reader` are those of the last `open`."""

    kind: type[CommitLog] = CommitLog

    def __init__(self, data_dir: Path, **settings: object) -> None:
        values: dict[str, object] = {
            "data_dir": data_dir,
            "segment_bytes": SEGMENT_BYTES,
            "free_bytes_min": 0,
            "disk_high_ratio": 1.0,  # however full the disk is that the tests are run on
            "compacted_grace_ms": 0,
            "clock_confirm_ms": 0,
            "flush_interval_ms": 60_000,
            "snapshot_interval_ms": 3_600_000,
            **settings,
        }
        self.settings = Storage.model_validate(values)
        self.directory = data_dir / "commitlog"
        self.files = FaultyFiles()
        self.clock = ManualClock()
        self.log: CommitLog
        self.reader: Reader
        self._loop: asyncio.AbstractEventLoop | None = None

    # The log's life --------------------------------------------------------------------------

    def open(self) -> LogHarness:
        """Open the log; raises what `CommitLog.open` raises."""
        loop = self._loop = asyncio.new_event_loop()
        self.log = self.kind(self.settings, self.files, self.clock)

        async def opening() -> None:
            self.log.open(loop=asyncio.get_running_loop())

        try:
            loop.run_until_complete(opening())
        except BaseException:
            for segment in self.log.segments:
                segment.close()
            self._end_loop()
            raise
        self.reader = Reader(self.log)
        return self

    def close(self) -> None:
        """Stop the log as the gateway does."""
        self.run(self.log.close())
        self._end_loop()

    def crash(self) -> None:
        """Let go of the log without a further write: what is in its files now stays."""
        if self._loop is not None:
            self.log.release()
            self.forget()

    def forget(self) -> None:
        """Take note that a test has closed the log by itself."""
        self._end_loop()

    def reopen(self) -> LogHarness:
        """Crash, then open again."""
        self.crash()
        return self.open()

    def _end_loop(self) -> None:
        loop, self._loop = self._loop, None
        assert loop is not None
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()

    @property
    def is_open(self) -> bool:
        """Whether there is a log to work with."""
        return self._loop is not None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The loop that the log lives on."""
        assert self._loop is not None
        return self._loop

    def run(self, awaitable: Awaitable[T]) -> T:
        """The awaitable's result."""

        async def waiting() -> T:
            return await awaitable

        return self.loop.run_until_complete(waiting())

    def settle(self) -> None:
        """Let the loop do all that is due now: pending frames, rolls, the flushes these wait for."""

        async def turns() -> None:
            for _ in range(20):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())

    # Writing ---------------------------------------------------------------------------------

    def queue(self, topic: str, queue_id: int = 0) -> Queue:
        """The queue."""
        return self.log.topics.queue(topic, queue_id)

    def record(self, record: TopicRecord) -> None:
        """Change a topic in the way of the gateway: by a record in the log."""
        body = json.dumps(record).encode()

        async def recording() -> None:
            await self.log.append(RowsAppend([make_row(body=body)], [self.queue(TOPICS_TOPIC)]))

        self.run(recording())

    def put_topic(self, name: str, queues: int = 4, permission: str = "rw") -> None:
        """Make or change a topic."""
        self.record({"op": "put", "topic": name, "queues": queues, "permission": permission})

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        self.record({"op": "delete", "topic": name, "queues": 0, "permission": "rw"})

    def begin_append(
        self, topic: str, queue_ids: Sequence[int], bodies: Sequence[bytes], key: Key | None = None
    ) -> asyncio.Future[Stored]:
        """Begin to store the bodies, each in its queue: one request."""
        rows = [make_row(body=body) for body in bodies]
        queues = [self.queue(topic, queue_id) for queue_id in queue_ids]

        async def beginning() -> asyncio.Future[Stored]:
            return self.log.append(RowsAppend(rows, queues, key))

        return self.loop.run_until_complete(beginning())

    def append(self, topic: str, queue_id: int, *bodies: bytes, key: Key | None = None) -> Stored:
        """Store the bodies in one queue: one request, one frame."""
        return self.run(self.begin_append(topic, [queue_id] * len(bodies), bodies, key))

    def append_batch(self, topic: str, groups: Sequence[tuple[int, Sequence[bytes]]]) -> Stored:
        """Store one batch: the bodies of each group in the queue of that id."""
        bodies = [body for _, group in groups for body in group]
        batch = pa.RecordBatch.from_arrays(
            [pa.array(bodies, pa.binary())], schema=pa.schema([pa.field("body", pa.binary(), nullable=False)])
        )
        counts = [(self.queue(topic, queue_id), len(group)) for queue_id, group in groups]

        async def appending() -> Stored:
            return await self.log.append(BatchAppend(Columns(batch), counts, sum(map(len, bodies))))

        return self.run(appending())

    def flush(self) -> None:
        """Bring everything to disk."""

        async def flushing() -> None:
            await self.log.flushed()

        self.run(flushing())

    def roll(self, topic: str, queue_id: int = 0) -> list[Stored]:
        """Fill the active segment and begin the next; returns what was stored for it."""
        segments = len(self.log.segments)
        stored: list[Stored] = []
        while len(self.log.segments) == segments:
            stored.append(self.append(topic, queue_id, incompressible(len(stored), 300_000)))
        self.wait_until_sealed()
        return stored

    def wait_until_sealed(self) -> None:
        """Let the threads write the indexes of the segments that are written no more."""
        while any(segment.sealing for segment in self.log.segments):
            self.run(asyncio.sleep(0.001))

    def wait_until_reserved(self) -> None:
        """Let the thread that reserves positions end, and the log see what became of it."""
        while self.log._positions.running:  # pyright: ignore[reportPrivateUsage]
            self.run(asyncio.sleep(0.001))

    # Reading ---------------------------------------------------------------------------------

    def read_queue(
        self, topic: str, queue_id: int, offset: int = 0, messages_max: int = 10_000, bytes_max: int = MIB
    ) -> list[Message]:
        """The queue's messages from `offset` to its end, read as a client would: pull after pull."""
        queue = self.queue(topic, queue_id)
        messages: list[Message] = []
        while offset < queue.next_offset:
            plan = self.reader.plan(queue, offset, messages_max, bytes_max)
            assert plan.begin == offset < plan.end
            assert plan.end <= offset + messages_max or plan.end == queue.after_gap(offset)
            messages += messages_of(self.reader.read(plan))
            offset = plan.end
        return messages

    def read_log(
        self, begin: int | None = None, end: int | None = None, topics: set[str] | None = None, bytes_max: int = MIB
    ) -> list[Message]:
        """The messages by position, read as the Spark source would: answer after answer."""
        at = self.log.min_position if begin is None else begin
        end = self.log.next_position if end is None else end
        messages: list[Message] = []
        while at < end:
            plan = self.reader.plan_positions(at, end, topics, bytes_max)
            assert plan.begin == at < plan.end <= end
            messages += messages_of(self.reader.read_positions(plan, topics))
            at = plan.end
        return messages

    def segment_paths(self) -> list[Path]:
        """The segments' files, ascending."""
        return sorted(self.directory.glob("*.log"))

    @property
    def active(self) -> Segment:
        """The segment that is written."""
        return self.log.active


async def begin_segment(log: CommitLog) -> None:
    """Return once the segment that was written is written no more, and its index is no more in memory."""
    old = log.active
    log.begin_segment()
    for _ in range(60_000):
        if log.active is not old and not old.sealing:
            assert old.index is None
            return
        await asyncio.sleep(0.001)
    raise AssertionError("no segment was begun")


def plan_rows_now(reader: RowReader, positions: Sequence[int]) -> list[RowsPlan]:
    """`Plans.rows` of a log that stands still."""
    return plan_rows(reader.segments(), reader.index, positions, reader.next_position)


def whole_frame(log: LogEpoch, *parts: Any) -> bytes:
    """A frame of that log with everything that is in it: the parts are `encode`'s."""
    meta_part, payload = encode(log, *parts)
    return meta_part + bytes(payload)


def messages_of(slices: Sequence[Slice]) -> list[Message]:
    """The messages of slices, one by one."""
    messages: list[Message] = []
    for piece in slices:
        bodies = piece.frame.batch.column("body").slice(piece.row, piece.count).to_pylist()
        messages += [
            Message(
                piece.run.topic,
                piece.run.queue_id,
                piece.first_queue_offset + number,
                piece.first_position + number,
                body,
                piece.frame.meta.store_time_ms,
            )
            for number, body in enumerate(bodies)
        ]
    return messages


def incompressible(seed: int, size: int) -> bytes:
    """Bytes that no compression makes smaller, the same for the same seed."""
    return random.Random(seed).randbytes(size)
