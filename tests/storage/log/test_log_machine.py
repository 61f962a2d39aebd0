"""The real log on real files against a perfect one in memory, through crashes and faults.

`LAKEMQ_TEST_EXAMPLES=2000` makes it long.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lakemq.model.errors import MessageNotFound, StoreUnwritable
from lakemq.storage.log import positions as positions_module
from lakemq.storage.log.appends import BatchAppend, OneAppend, RowsAppend
from lakemq.storage.log.flush_mark import read_flush_mark
from lakemq.storage.log.receiver import Stored
from lakemq.storage.read import reader as reader_module
from lakemq.storage.read import sealed_indexes as sealed_indexes_module
from lakemq.storage.read.plans import Plans
from lakemq.storage.segment import scan as scan_module
from lakemq.storage.segment.content import Columns
from lakemq.storage.segment.rows import make_row
from lakemq.storage.state.topics import TOPICS_TOPIC, Queue, TopicRecord
from tests.storage.harness import LogHarness, Message, incompressible, messages_of

EXAMPLES = int(os.environ.get("LAKEMQ_TEST_EXAMPLES", "20"))
TOPICS = ("a", "b", "c")
RETENTION_MS = 1_000_000
SIZES = st.sampled_from([0, 1, 30, 500, 5_000, 120_000, 400_000])
FRACTION = st.floats(0, 1)


class Part(NamedTuple):
    """What one request asks for: bodies, as `(queue's number, size)` each."""

    form: str
    topic: int
    rows: list[tuple[int, int]]


ROWS = st.lists(st.tuples(st.integers(0, 3), SIZES), min_size=1, max_size=6)
PART = st.builds(Part, st.sampled_from(["rows", "batch", "one"]), st.integers(0, 2), ROWS)


class Lost(NamedTuple):
    """A position that is given to no message: what had it may be lost. So is one offset of each queue."""

    position: int
    store_time_ms: int


class ModelTopic:
    """A topic as it should be."""

    def __init__(self) -> None:
        self.queues = 0
        self.deleted = True
        self.floors: dict[int, int] = {}

    def pass_over(self, ends: list[int]) -> None:
        """A queue in which nothing can be read begins after what is lost, at its end."""
        for queue_id, end in enumerate(ends):
            if self.floors.get(queue_id, 0) == end:
                self.floors[queue_id] = end + 1


class Model:
    """A perfect log: a list of messages. Everything else follows from it."""

    def __init__(self) -> None:
        self.messages: list[Message | Lost] = []
        self.min_position = 0
        self.given: set[object] = set()
        """Every position, and every offset of a queue, that somebody was told of, lost or not."""

    def store(self, message: Message) -> None:
        """The next message; none was ever told of its position and offset before."""
        assert message.position == len(self.messages)
        for name in (message.position, (message.topic, message.queue_id, message.queue_offset)):
            assert name not in self.given
            self.given.add(name)
        self.messages.append(message)

    def lose(self, begin: int, end: int, store_time_ms: int) -> None:
        """The messages from position `begin` on are lost, and the log goes on with `end`."""
        self.messages[begin:] = [Lost(position, store_time_ms) for position in range(begin, end)]

    def topics(self) -> dict[str, ModelTopic]:
        """The topics, by replaying their records."""
        topics: dict[str, ModelTopic] = {TOPICS_TOPIC: ModelTopic()}
        topics[TOPICS_TOPIC].queues, topics[TOPICS_TOPIC].deleted = 1, False
        ends: Counter[tuple[str, int]] = Counter()
        lost = 0
        for message in self.messages:
            if isinstance(message, Lost):
                for name, topic in topics.items():
                    topic.pass_over([lost + ends[name, queue_id] for queue_id in range(topic.queues)])
                lost += 1
                continue
            if message.topic == TOPICS_TOPIC:
                record = json.loads(message.body)
                topic = topics.setdefault(record["topic"], ModelTopic())
                begin = 0 if topic.deleted else topic.queues
                topic.deleted, topic.queues = record["op"] == "delete", record["queues"]
                for queue_id in range(begin, topic.queues):
                    topic.floors[queue_id] = lost + ends[record["topic"], queue_id]
            ends[message.topic, message.queue_id] += 1
        return topics

    def queue(self, topic: str, queue_id: int) -> list[Message | Lost]:
        """The queue by offset, the first one is 0."""
        return [m for m in self.messages if isinstance(m, Lost) or (m.topic == topic and m.queue_id == queue_id)]

    def readable(self) -> list[Message]:
        """What retention has left."""
        return whole(self.messages[self.min_position :])


def whole(messages: Sequence[Message | Lost]) -> list[Message]:
    """Those that can be read."""
    return [message for message in messages if isinstance(message, Message)]


class LogMachine(RuleBasedStateMachine):
    """Does anything to the log that a gateway, an operator or a failing machine may do."""

    def __init__(self) -> None:
        super().__init__()
        # Bounds that take much data to reach are small here.
        self.bounds = pytest.MonkeyPatch()
        self.bounds.setattr(reader_module, "FRAMES_MAX", 3)
        self.bounds.setattr(sealed_indexes_module, "INDEXES_MAX", 1)
        self.bounds.setattr(reader_module, "READ_BYTES", 2_000)
        self.bounds.setattr(scan_module, "CHUNK_BYTES", 8_000)
        self.bounds.setattr(positions_module, "BLOCK_MIN", 10)
        self.bounds.setattr(positions_module, "BLOCK_MAX", 40)
        self.bounds.setattr(positions_module, "UNKNOWN_BLOCK", 100)
        self.path = Path(tempfile.mkdtemp(prefix="lakemq-machine-"))
        self.harness = LogHarness(
            self.path, retention_ms=RETENTION_MS, snapshot_bytes=200_000, cache_bytes=300_000, verify_ms=60_000
        )
        self.harness.open()
        self.model = Model()
        self.serial = 0
        self._plans = self.harness.reader, Plans(self.harness.reader)

    @property
    def plans(self) -> Plans:
        """Those of the log that is open."""
        if self._plans[0] is not self.harness.reader:
            self._plans = self.harness.reader, Plans(self.harness.reader)
        return self._plans[1]

    def teardown(self) -> None:
        if self.harness.is_open:
            self.harness.crash()
        shutil.rmtree(self.path)
        self.bounds.undo()

    # Writing ---------------------------------------------------------------------------------

    def _live(self) -> list[str]:
        return [name for name in TOPICS if self.harness.log.topics.find(name) is not None]

    def _body(self, size: int) -> bytes:
        self.serial += 1
        return incompressible(self.serial, size)

    def _begin(self, part: Part, topic: str) -> tuple[asyncio.Future[Any], list[tuple[Queue, bytes]]]:
        """Begin to store the part; returns its future and what it stores, in the log's order."""
        queues = self.harness.log.topics.get(topic).queues
        rows = [(queues[number % len(queues)], self._body(size)) for number, size in part.rows]
        if part.form == "one":
            queue, body = rows[0]
            return self.harness.log.append(OneAppend(make_row(body=body, tag="t"), queue)), [(queue, body)]
        size = sum(len(body) for _, body in rows)
        if part.form == "rows":
            future = self.harness.log.append(RowsAppend([make_row(body=b) for _, b in rows], [q for q, _ in rows]))
            return future, rows
        groups: dict[Queue, list[bytes]] = {}
        for queue, body in rows:
            groups.setdefault(queue, []).append(body)
        bodies = [body for group in groups.values() for body in group]
        schema = pa.schema([pa.field("body", pa.binary(), nullable=False)])
        batch = pa.RecordBatch.from_arrays([pa.array(bodies, pa.binary())], schema=schema)
        counts = [(queue, len(group)) for queue, group in groups.items()]
        future = self.harness.log.append(BatchAppend(Columns(batch), counts, size))
        return future, [(queue, body) for queue, group in groups.items() for body in group]

    def _store(self, parts: Sequence[Part]) -> list[bool]:
        """Store the parts, all pending at once; the model learns of those that were."""
        topics = self._live()
        assume(topics)
        begun: list[tuple[Part, asyncio.Future[Any], list[tuple[Queue, bytes]]]] = []

        async def storing() -> None:
            begun.extend((part, *self._begin(part, topics[part.topic % len(topics)])) for part in parts)
            await asyncio.wait([future for _, future, _ in begun])

        self.harness.run(storing())
        new: dict[int, Message] = {}
        for part, future, rows in begun:
            error = future.exception()
            if error is None:
                new.update(_placed(part, future.result(), rows))
            else:
                assert isinstance(error, StoreUnwritable), repr(error)
        count = len(self.model.messages)
        assert sorted(new) == list(range(count, count + len(new)))
        for position in sorted(new):
            self.model.store(new[position])
        return [future.exception() is None for _, future, _ in begun]

    @rule(parts=st.lists(PART, min_size=1, max_size=5))
    def store(self, parts: list[Part]) -> None:
        assert all(self._store(parts))

    @initialize(queues=st.integers(1, 5))
    def put_first_topic(self, queues: int) -> None:
        self.put_topic("a", queues)

    @rule(name=st.sampled_from(TOPICS), queues=st.integers(1, 5))
    def put_topic(self, name: str, queues: int) -> None:
        topic = self.harness.log.topics.find(name)
        queues = max(queues, len(topic.queues) if topic else 1)
        self._record({"op": "put", "topic": name, "queues": queues, "permission": "rw"})

    @rule(number=st.integers(0, 2))
    def delete_topic(self, number: int) -> None:
        topics = self._live()
        assume(topics)
        self._record({"op": "delete", "topic": topics[number % len(topics)], "queues": 0, "permission": "rw"})

    def _record(self, record: TopicRecord) -> None:
        self.harness.record(record)
        position = len(self.model.messages)
        offset = len(self.model.queue(TOPICS_TOPIC, 0))
        time_ms = self.harness.log.now_ms()
        body = json.dumps(record).encode()
        self.model.store(Message(TOPICS_TOPIC, 0, offset, position, body, time_ms))

    @rule(step_ms=st.integers(-2_000, 10_000))
    def set_clock(self, step_ms: int) -> None:
        self.harness.clock.time_ms += step_ms

    @rule()
    def flush(self) -> None:
        self.harness.flush()
        assert self.harness.log.flushed_position == len(self.model.messages)

    @rule(compacted=FRACTION, late_ms=st.sampled_from([0, RETENTION_MS + 20_000]))
    def retain(self, compacted: float, late_ms: int) -> None:
        log = self.harness.log
        log.retention.certain_position = max(log.retention.certain_position, int(compacted * log.flushed_position))
        self.harness.clock.time_ms += late_ms
        horizon = self.harness.clock.time_ms - RETENTION_MS
        log.retain()
        gone = self.model.messages[self.model.min_position : log.min_position]
        assert log.min_position <= log.retention.certain_position or not gone
        assert all(message.store_time_ms < horizon for message in gone)
        self.model.min_position = log.min_position

    # Faults ----------------------------------------------------------------------------------

    @rule(room=st.integers(0, 600_000), parts=st.lists(PART, min_size=1, max_size=4))
    def fill_the_disk(self, room: int, parts: list[Part]) -> None:
        self.harness.files.room_bytes = room
        stored = self._store(parts)
        assert all(stored) or self.harness.log.unwritable is not None
        self.harness.wait_until_reserved()  # or not, as there was no room
        self.harness.files.room_bytes = None
        self.harness.log.retain()
        self.model.min_position = self.harness.log.min_position
        self.harness.wait_until_reserved()
        assert self.harness.log.unwritable is None

    @rule(parts=st.lists(PART, min_size=1, max_size=3), cut_fails=st.booleans())
    def fail_to_flush(self, parts: list[Part], cut_fails: bool) -> None:
        files = self.harness.files
        files.fail_sync = True
        if cut_fails:
            files.fail_truncate, files.room_bytes = True, 1000
        self._store(parts)
        if self.harness.log.flushed_position < self.harness.log.next_position:
            with pytest.raises(StoreUnwritable):
                self.harness.flush()
        files.fail_sync = False
        files.room_bytes = None
        assert self._store(parts) == [False] * len(parts)
        assert self.harness.read_log() == self.model.readable()
        files.fail_truncate = False
        self.kill()

    @rule()
    def kill(self) -> None:
        """kill -9: what was written is there."""
        compacted = self.harness.log.retention.certain_position
        self.harness.reopen()
        self.harness.log.retention.certain_position = compacted
        assert self.harness.read_log() == self.model.readable()

    @rule()
    def stop(self) -> None:
        compacted = self.harness.log.retention.certain_position
        self.harness.close()
        self.harness.open()
        self.harness.log.retention.certain_position = compacted
        assert self.harness.log.torn_bytes == 0
        assert self.harness.log.flushed_position == len(self.model.messages)
        assert self.harness.read_log() == self.model.readable()

    @rule(kept=FRACTION, filler=st.sampled_from([b"", b"\0", b"\xff"]), no_mark=st.booleans(), no_index=st.booleans(),
          reserved=st.booleans())  # fmt: skip
    def lose_power(self, kept: float, filler: bytes, no_mark: bool, no_index: bool, reserved: bool) -> None:
        """What was flushed is there, and of the rest as much as there is without a gap. What was told of
        the rest is never told of another message."""
        log = self.harness.log
        index, size, flushed = log.active_index, log.active.size, log.flushed_position
        number = max(bisect_left(index.positions, flushed), 1)
        compacted, end = log.retention.certain_position, log.next_position
        self.harness.crash()
        mark = read_flush_mark(self.harness.files, self.harness.directory)
        if mark.base_position == self.harness.active.base_position:
            # A flush that ran as the log was let go of has ended, and the mark may say so.
            number = max(number, bisect_left(index.offsets, mark.size))
            flushed = max(flushed, index.positions[number] if number < len(index.positions) else end)
        safe = index.offsets[number] if number < len(index.offsets) else size
        cut = safe + int(kept * (size - safe))
        path = self.harness.active.path
        data = path.read_bytes()
        path.write_bytes(data[:cut] + filler * (size - cut))
        if no_mark:
            (self.harness.directory / "FLUSHED").unlink(missing_ok=True)
        if no_index:
            for index_path in self.harness.directory.glob("*.idx"):
                index_path.unlink()
        if not reserved:
            (self.harness.directory / "RESERVED").unlink()
        self.harness.files.boots += 1
        epoch = log.identity.now.epoch
        self.harness.open()
        log = self.harness.log
        assert log.identity.now.epoch > epoch
        left = log.identity.dump()["epochs"][-1][1]
        assert left >= flushed
        assert kept < 1 or left == len(self.model.messages)
        self.model.lose(left, log.next_position, log.active.last_store_time_ms)
        self.harness.log.retention.certain_position = min(compacted, left)
        assert self.harness.read_log() == self.model.readable()

    # Reading ---------------------------------------------------------------------------------

    @rule(name=st.sampled_from(TOPICS), number=st.integers(0, 4), begin=FRACTION, messages_max=st.integers(1, 40),
          bytes_max=st.sampled_from([1, 1000, 200_000, 10_000_000]))  # fmt: skip
    def read_queue(self, name: str, number: int, begin: float, messages_max: int, bytes_max: int) -> None:
        topic = self.harness.log.topics.find(name)
        assume(topic is not None)
        assert topic is not None
        queue = topic.queues[number % len(topic.queues)]
        offset = queue.min_offset + int(begin * (queue.next_offset - queue.min_offset))
        found = self.harness.read_queue(name, queue.queue_id, offset, messages_max, bytes_max)
        assert found == whole(self.model.queue(name, queue.queue_id)[offset:])

    @rule(begin=FRACTION, end=FRACTION, topics=st.sets(st.sampled_from([*TOPICS, TOPICS_TOPIC])) | st.none(),
          bytes_max=st.sampled_from([1, 1000, 200_000, 10_000_000]))  # fmt: skip
    def read_positions(self, begin: float, end: float, topics: set[str] | None, bytes_max: int) -> None:
        low, high = sorted(map(self._position, (begin, end)))
        found = self.harness.read_log(low, high, topics, bytes_max)
        assert found == [m for m in whole(self.model.messages[low:high]) if topics is None or m.topic in topics]

    def _position(self, fraction: float) -> int:
        low, high = self.model.min_position, len(self.model.messages)
        return low + int(fraction * (high - low))

    @rule(at=FRACTION)
    def read_message(self, at: float) -> None:
        position = self._position(at)
        if position == len(self.model.messages) or isinstance(self.model.messages[position], Lost):
            with pytest.raises(MessageNotFound):
                self.harness.reader.message(position)
        else:
            assert messages_of([self.harness.reader.message(position)]) == [self.model.messages[position]]

    @rule(at=FRACTION, shift=st.integers(-1, 1), name=st.sampled_from(TOPICS), number=st.integers(0, 4))
    def look_up_time(self, at: float, shift: int, name: str, number: int) -> None:
        position = self._position(at)
        assume(position < len(self.model.messages))
        time_ms = self.model.messages[position].store_time_ms + shift
        expected = next(
            (m.position for m in self.model.messages[self.model.min_position :] if m.store_time_ms >= time_ms),
            len(self.model.messages),
        )
        assert self.harness.reader.position_at_time(time_ms) == expected
        topic = self.harness.log.topics.find(name)
        if topic is not None:
            queue = topic.queues[number % len(topic.queues)]
            messages = self.model.queue(name, queue.queue_id)
            offset = next((m.queue_offset for m in whole(messages) if m.position >= expected), len(messages))
            found = self.harness.reader.offset_at_position(queue, expected)
            assert found == max(offset, queue.min_offset)

    @rule(at=FRACTION, names=st.sets(st.sampled_from(TOPICS)), messages_max=st.integers(1, 30))
    def plan_a_range(self, at: float, names: set[str], messages_max: int) -> None:
        begin = self._position(at)
        end = self.harness.reader.end_of(names, begin)
        assert self.harness.run(self.plans.end_of(names, begin, asyncio.to_thread))() == end
        wanted = [m.position for m in whole(self.model.messages) if m.topic in names and m.position >= begin]
        assert end >= begin
        assert all(position < end for position in wanted)
        assert self.harness.run(self._read_by_plans(begin, names)) == wanted
        if end > begin:
            meta = self.harness.reader.message(end - 1).frame.meta
            assert meta.first_position + meta.count == end
            assert any(run.topic in names for run in meta.runs)
            limit = self.harness.run(self.plans.limit(names, begin, end, messages_max, asyncio.to_thread))
            assert begin < limit <= end
            assert sum(position < limit for position in wanted) <= messages_max

    async def _read_by_plans(self, begin: int, names: set[str]) -> list[int]:
        """The positions from `begin` on of the topics' messages."""
        reader, at, end = self.harness.reader, begin, self.harness.log.next_position
        found: list[int] = []
        while at < end:
            plan = await self.plans.positions(at, end, names, 1_000, asyncio.to_thread)
            assert plan.begin == at < plan.end <= end
            found += [message.position for message in messages_of(reader.read_positions(plan, names))]
            at = plan.end
        return found

    # What always holds -----------------------------------------------------------------------

    @invariant()
    def bounds_are_right(self) -> None:
        log = self.harness.log
        assert log.next_position == len(self.model.messages)
        assert log.min_position == self.model.min_position
        assert log.flushed_position <= log.next_position
        times = [message.store_time_ms for message in self.model.messages]
        assert times == sorted(times)

    @invariant()
    def topics_are_right(self) -> None:
        topics = self.model.topics()
        table = self.harness.log.topics
        assert {topic.name for topic in table} == {name for name, topic in topics.items() if not topic.deleted}
        found = {queue.key: (queue.min_offset, queue.next_offset) for queue in table.all_queues()}
        expected: dict[tuple[str, int], tuple[int, int]] = {}
        for name, topic in topics.items():
            for queue_id in range(topic.queues):
                messages = self.model.queue(name, queue_id)
                gone = sum(message.position < self.model.min_position for message in messages)
                expected[name, queue_id] = max(gone, topic.floors.get(queue_id, 0)), len(messages)
        assert found == expected

    @precondition(lambda self: len(self.model.messages) % 5 == 0)
    @invariant()
    def everything_is_there(self) -> None:
        assert self.harness.read_log() == self.model.readable()


def _placed(
    part: Part, result: Stored | tuple[int, int, int, int], rows: list[tuple[Queue, bytes]]
) -> dict[int, Message]:
    """The messages that a request was answered for, by position."""
    if isinstance(result, Stored):
        time_ms, placed = result.store_time_ms, list(result.placed)
    else:
        (queue_id, offset, position, time_ms) = result
        assert part.form == "one"
        queue, body = rows[0]
        return {position: Message(queue.topic, queue_id, offset, position, body, time_ms)}
    if part.form == "rows":
        return {
            position: Message(queue.topic, queue_id, offset, position, body, time_ms)
            for (queue, body), (queue_id, offset, position) in zip(rows, placed, strict=True)
        }
    firsts = {queue_id: (offset, position) for queue_id, offset, position in placed}
    messages: dict[int, Message] = {}
    seen: dict[int, int] = {}
    for queue, body in rows:
        number = seen[queue.queue_id] = seen.get(queue.queue_id, -1) + 1
        offset, position = firsts[queue.queue_id]
        message = Message(queue.topic, queue.queue_id, offset + number, position + number, body, time_ms)
        messages[message.position] = message
    return messages


LogMachine.TestCase.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)
TestLogMachine = LogMachine.TestCase
