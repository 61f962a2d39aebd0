"""Staging a batch's parts, committing them, and storing each once, whatever dies in between."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute
from crc32c import crc32c

from lakemq.gateway.decode import Limits
from lakemq.gateway.decode.arrow_form import decode_arrow
from lakemq.gateway.effects.traced_copies import CopySpans
from lakemq.gateway.sinks.committed import Committed
from lakemq.gateway.sinks.naming import check_names, check_sink
from lakemq.gateway.sinks.placing import Target, check_part, check_queues, done_body, place_part, with_record
from lakemq.gateway.sinks.staging import BadPart, Part, Staging, lost_part, pack
from lakemq.gateway.sinks.standing import committed_part, may_be_taken_back, what_stands
from lakemq.gateway.work.run import Run, at_once
from lakemq.model.columns import SINK
from lakemq.model.errors import (
    Busy,
    FlowControl,
    IdempotencyMismatch,
    InvalidRequest,
    LakemqError,
    PartNotFound,
    QueueNotFound,
    SinkNotFound,
    StoreUnwritable,
    TopicNotFound,
)
from lakemq.model.names import SCHEDULE_TOPIC, SINK_TOPIC, retry_topic
from lakemq.settings import Settings
from lakemq.storage.disk.files import Files
from lakemq.storage.log.appends import RowsAppend
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.log.topic_changes import NOBODY, Maker
from lakemq.storage.segment.rows import make_row
from lakemq.storage.state.sinks import COMMIT, FORGET, Sink, SinkState
from lakemq.storage.state.topics import Queue, Topic

pc: Any = pyarrow.compute  # its functions are made at run time, unknown to type checkers
logger = logging.getLogger(__name__)

RETRY_S = 1.0
FLUSH_BYTES = 16 * 1024 * 1024
"""So much of a batch is stored before its parts' files go."""
READS_MAX = 2
"""Parts in memory at a time, of all sinks."""
OVER_MAX = 1_000
"""So many batches that nobody tries again are remembered, for their parts that are still on their way."""


class Sinks:
    """The sinks of one broker. `open` once the log is, then `start`."""

    def __init__(
        self,
        settings: Settings,
        log: CommitLog,
        files: Files,
        limits: Limits,
        system_topic: Callable[[str], Awaitable[Topic]],
        writable_topic: Callable[[str, Maker], Awaitable[Topic]],
    ) -> None:
        self._settings = settings.sinks
        self._delay = settings.delay
        self._log = log
        self._limits = limits
        self._system_topic = system_topic
        self._writable_topic = writable_topic
        self.staging = Staging(settings.storage.data_dir / "sinks", files)
        self._busy: dict[str, asyncio.Future[None]] = {}
        self._reads = asyncio.Semaphore(READS_MAX)
        self._going_on: dict[str, asyncio.Task[None]] = {}
        self._over: dict[tuple[str, int], None] = {}
        self._confirmed: int | None = None
        self._sends = asyncio.Semaphore(READS_MAX)
        self.spans: CopySpans | None = None
        """Told of rows that may be copies, when they are stored."""
        self.offer: Callable[[list[str], int], Awaitable[None]] | None = None
        """Have other replicas take parts, which have these files and so many bytes, before they are committed."""

    @property
    def state(self) -> SinkState:
        """What the log says was committed."""
        return self._log.state.sinks

    def shown(self, sink: str) -> Sink | None:
        """Without a commit that may yet be taken back: whoever goes on after a batch has to have it for good."""
        return what_stands(self.state, sink) if self._may_be_taken_back(sink) else self.state.by_name.get(sink)

    def _may_be_taken_back(self, sink: str) -> bool:
        confirmed = self._log.confirmed_position
        return may_be_taken_back(self.state, self.staging, sink, confirmed, self._confirmed)

    def open(self, confirmed: int | None = None) -> None:
        """Find the staged parts. `confirmed`: how far the log is known to be, so how far all who lead next have the
        parts of what is committed; None: nobody else ever did. Raises `OSError`."""
        self._confirmed = confirmed
        self.staging.load(set(self.state.tokens()))

    def start(self) -> None:
        """Store those that were committed."""
        for name in list(self.state.unfinished()):
            self._go_on(name)
        self.tidy(self._log.retention.steady_ms)
        self._drop([part for part in self.staging.all() if self._is_over(part)])

    async def close(self) -> None:
        """Store no more; the next process goes on."""
        tasks = list(self._going_on.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def tidy(self, now_ms: int) -> None:
        """Forget what nobody has come back for."""
        before_ms = now_ms - self._settings.keep_ms
        self.state.expire(before_ms)
        old = [part for part in self.staging.all() if part.staged_ms < before_ms and part.sink not in self._busy]
        self._drop([part for part in old if not self._is_left(part)])

    # Staging ---------------------------------------------------------------------------------

    async def stage(
        self,
        sink: str,
        batch: int,
        name: str,
        topic: str,
        group: str | None,
        body: bytes,
        run: Run = at_once,
        maker: Maker = NOBODY,
    ) -> Part | None:
        """Check a part and bring it to disk; nobody sees its messages before the commit. None: the batch is
        committed already, or given up for good, so the part isn't needed. The same part again is no error. What takes
        long, `run` carries out.

        Raises `InvalidRequest`, `InvalidArrow`, `MessageTooLarge`, `QueueNotFound`, `IdempotencyMismatch`,
        `FlowControl`, `StoreUnwritable` and what keeps a producer from the topic.
        """
        check_names(sink, batch, name, group)
        if self._is_committed(sink, batch):
            await self._log.until_confirmed()  # who committed it may not have been told yet
            if self._may_be_taken_back(sink):
                async with self._turn(sink):
                    if self._may_be_taken_back(sink):
                        await self._end_earlier(sink)
        if self._is_committed(sink, batch) or (sink, batch) in self._over:
            return None
        async with self._turn(f"{sink}/{batch}/{name}"):  # a slash is in no name
            return await self._stage(sink, batch, name, topic, group, body, run, maker)

    def _is_committed(self, sink: str, batch: int) -> bool:
        known = self.state.by_name.get(sink)
        return known is not None and batch <= known.batch

    async def _stage(
        self, sink: str, batch: int, name: str, topic: str, group: str | None, body: bytes, run: Run, maker: Maker
    ) -> Part | None:
        digest = await run(crc32c, body)
        staged = self.staging.find(sink, batch, name)
        if staged is not None:
            if (staged.topic, staged.group, staged.digest) != (topic, group, digest):
                raise IdempotencyMismatch(f"part {name!r} of batch {batch} was staged before, with other messages")
            return staged
        self._check_room(len(body))
        found = await self._writable_topic(topic, maker)
        now_ms = self._log.now_ms()

        def make() -> tuple[Part, pa.Buffer]:
            rows = decode_arrow(body, self._limits, SINK)
            needs = check_part(rows.batch, found, group, now_ms, self._delay)
            payload = pack(rows.batch)
            count, crc = rows.batch.num_rows, crc32c(payload)
            return Part(sink, batch, name, topic, group, count, *needs, digest, crc, payload.size, now_ms), payload

        part, payload = await run(make)
        try:
            await asyncio.to_thread(self.staging.write, part, payload)
        except OSError as error:
            raise StoreUnwritable(f"the part can't be written: {error}") from None
        self.staging.enter(part)
        if (sink, batch) in self._over:
            self._drop([part])
            return None
        return part

    def _check_room(self, size: int) -> None:
        limits, staging = self._settings, self.staging
        refusal = self._log.refusal()
        if refusal is not None:
            raise refusal
        free, _ = self._log.files.free_bytes(self._log.directory)
        needed = self._log.settings.free_bytes_min + size + self._limits.request_bytes_max + FLUSH_BYTES
        if free < needed:  # what is staged must also fit the log before its file goes
            raise StoreUnwritable(f"the disk has {free} bytes free; to stage a part it needs {needed}")
        if staging.bytes + size > limits.staged_bytes_max or staging.count >= limits.staged_parts_max:
            raise FlowControl(
                f"{staging.count} parts of {staging.bytes} bytes wait for their commit already"
                " (sinks.staged_parts_max, sinks.staged_bytes_max)"
            )

    # Committing ------------------------------------------------------------------------------

    async def commit(self, sink: str, batch: int, names: Sequence[str], progress: str, once: bool) -> Committed:
        """Make a batch's parts visible, in this order, all of them or none; on return they are on disk.

        A batch that is not after the sink's last one was committed before: nothing happens.
        Raises `PartNotFound`, `FlowControl`, `InvalidRequest`, with nothing committed; `StoreUnwritable`
        when it may have been, and then it is stored as soon as that can be, or another leads by then and hasn't the
        parts, and takes it back: the same commit again says.
        """
        check_sink(sink)
        if len(set(names)) < len(names):
            raise InvalidRequest("a part is there twice")
        async with self._turn(sink):
            known = self.state.by_name.get(sink)
            if known is not None and known.left:
                await self._end_earlier(sink)
                known = self.state.by_name.get(sink)
            if not self.state.takes(sink, batch):
                await self._log.until_confirmed()  # the commit before may have been told that it isn't
                self._drop(self.staging.of(sink, batch))
                return Committed(False, 0, 0)
            before = (0, 0) if known is None else (known.messages, known.dropped)
            parts = await self._staged(sink, batch, names)
            self._check_commit(sink, parts, once)
            for part in parts:
                await self._target(part)  # while it can still be refused
            tokens = {part.name: part.token for part in parts}
            if self.offer is not None:
                await self.offer(list(tokens.values()), sum(part.bytes for part in parts))
            record = {"op": COMMIT, "sink": sink, "batch": batch, "parts": list(names), "progress": progress}
            await self._record({**record, "once": once, "tokens": tokens, "new": sink not in self.state.by_name})
            await self._store_left(sink)
            done = self.state.by_name[sink]
            return Committed(True, done.messages - before[0], done.dropped - before[1])

    async def _staged(self, sink: str, batch: int, names: Sequence[str]) -> list[Part]:
        found = {name: self.staging.find(sink, batch, name) for name in names}
        parts = [part for part in found.values() if part is not None]
        try:
            lacking = await asyncio.to_thread(self.staging.lacking, parts)
        except OSError as error:
            raise StoreUnwritable(f"the staged parts can't be looked at now: {error}") from None
        for part in lacking:
            self.staging.forget(part)
            found[part.name] = None
        for name, part in found.items():
            if part is None:
                await self._log.until_confirmed()  # it may have been committed, and that taken back just now
                raise PartNotFound(f"part {name!r} of batch {batch} of sink {sink!r} is not staged")
        return parts

    def _check_commit(self, sink: str, parts: list[Part], once: bool) -> None:
        if sink not in self.state.by_name and not self.state.make_room(once, self._settings.sinks_max):
            raise FlowControl(f"there are {self._settings.sinks_max} sinks already (sinks.sinks_max)")
        later = sum(part.later for part in parts)
        if later and len(self._log.routing.delays) + later > self._delay.waiting_max:
            raise FlowControl(f"more than {self._delay.waiting_max} messages would wait (delay.waiting_max)")

    async def _record(self, *records: dict[str, Any]) -> None:
        """Write records, all or none, and bring them to disk."""
        queue = await self._queue(SINK_TOPIC)
        rows = [make_row(body=orjson.dumps(each)) for each in records]
        await asyncio.shield(self._log.append(RowsAppend(rows, [queue] * len(rows))))
        await self._log.until_confirmed()

    async def _queue(self, name: str) -> Queue:
        return (await self._system_topic(name)).queues[0]

    # Storing ---------------------------------------------------------------------------------

    async def _store_left(self, sink: str) -> None:
        """Store the parts that the log says are left; on return they are on disk, and their files go."""
        try:
            await self._store_parts(sink)
        except LakemqError:
            self._go_on(sink)
            raise

    async def _end_earlier(self, sink: str) -> None:
        """Store what an earlier commit has left. One that was written by a leader before, and confirmed by nobody, may
        be all that there is of a batch: then it is taken back, as if it had never been written. So is one whose parts a
        broker without replicas has lost since: who committed it was told nothing before one is stored."""
        try:
            if await self._is_to_be_taken_back(sink):
                batch = self.state.by_name[sink].batch
                logger.warning("batch %d of sink %s is to be committed again: parts are not here", batch, sink)
                await self._record(*self.state.taking_back(sink))
                return
            await self._log.until_confirmed()  # else who leads next may have some messages, and not the other parts
        except LakemqError:
            self._go_on(sink)
            raise
        await self._store_left(sink)

    async def _is_to_be_taken_back(self, sink: str) -> bool:
        before = self.state.before.get(sink)
        if before is None or (self._confirmed is not None and before.end <= self._confirmed):
            return False
        known = self.state.by_name[sink]
        return None in [await self._find(sink, known.batch, name) for name in known.left]

    async def _store_parts(self, sink: str) -> None:
        known = self.state.by_name[sink]
        stored: list[Part] = []
        try:
            for name in list(known.left):
                part = await self._find(sink, known.batch, name)
                async with self._reads:
                    await self._store(part or lost_part(sink, known.batch, name))
                if part is not None:
                    stored.append(part)
                if self._log.backlogged or sum(part.bytes for part in stored) > FLUSH_BYTES:
                    stored = await self._let_go(stored)
        except LakemqError:
            with suppress(StoreUnwritable):  # on a full disk their files are the room for what is left
                await self._let_go(stored)
            raise
        await self._let_go(stored)
        self._drop(self.staging.of(sink, known.batch))  # of attempts that were given up, too

    async def _find(self, sink: str, batch: int, name: str) -> Part | None:
        """The staged part; None: its file is gone. Raises `StoreUnwritable` while that can't be known."""
        part = self.staging.find(sink, batch, name)
        if part is None and self.staging.unread:
            for each in await asyncio.to_thread(self.staging.look_again):
                self.staging.enter(each)
            part = self.staging.find(sink, batch, name)
            if part is None and self.staging.unread:
                raise StoreUnwritable(f"part {name} may be in {self.staging.unread[0]}, which can't be read now")
        return committed_part(self.state, self.staging, sink, batch, name)

    async def _let_go(self, stored: list[Part]) -> list[Part]:
        """Parts that are in the log, once that is on disk, need their files no more; none is left then."""
        await self._log.until_confirmed()
        self._drop(stored)
        return []

    async def _store(self, part: Part) -> None:
        """Store one part, in a frame that also says so. What its topic no longer takes is dropped: the
        topic was deleted since, as with messages that wait to be delivered."""
        try:
            batch = await asyncio.to_thread(self.staging.read, part)
            target = await self._target(part)
            placed = place_part(batch, target, self._log.now_ms(), self._delay)
        except OSError as error:  # it may pass: what was committed is only dropped when it is lost for good
            raise StoreUnwritable(f"part {part.name} of batch {part.batch} can't be read now: {error}") from None
        except (BadPart, TopicNotFound, QueueNotFound) as error:
            logger.error("part %s of batch %d of sink %s is dropped: %s", part.name, part.batch, part.sink, error)  # noqa: TRY400  it says all
            await self._record_dropped(part, str(error))
            return
        queue = await self._queue(SINK_TOPIC)
        made = with_record(placed, done_body(part, part.messages), queue)
        stored = await asyncio.shield(self._log.append(made))
        if self.spans is not None and part.copies:
            where = part.topic, part.group, stored.placed[0].position, stored.store_time_ms
            await asyncio.to_thread(self.spans.note, placed.batch, *where)

    async def _record_dropped(self, part: Part, why: str) -> None:
        body = done_body(part, 0, why[:500])
        queue = await self._queue(SINK_TOPIC)
        await asyncio.shield(self._log.append(RowsAppend([make_row(body=body)], [queue])))

    async def _target(self, part: Part) -> Target:
        scheduled = await self._queue(SCHEDULE_TOPIC) if part.later else None
        retry = await self._queue(retry_topic(part.group)) if part.group is not None else None
        topic = self._log.topics.find(part.topic)
        if topic is None:
            raise TopicNotFound(f"topic {part.topic!r} was deleted")
        check_queues(topic, part.queues)
        return Target(topic, scheduled, retry)

    def _go_on(self, sink: str) -> None:
        """Store what is left of a sink as soon as that can be."""
        if sink not in self._going_on:
            task = asyncio.get_running_loop().create_task(self._store_when_possible(sink))
            self._going_on[sink] = task
            task.add_done_callback(lambda _: self._going_on.pop(sink, None))

    async def _store_when_possible(self, sink: str) -> None:
        while True:
            async with self._turn(sink):
                known = self.state.by_name.get(sink)
                if known is None or not known.left:
                    return
                try:
                    await self._end_earlier(sink)
                except LakemqError as error:
                    logger.warning("sink %s continues later: %s", sink, error)
                else:
                    return
            await asyncio.sleep(RETRY_S)

    @asynccontextmanager
    async def _turn(self, sink: str) -> AsyncGenerator[None]:
        """One at a time changes a sink."""
        while (other := self._busy.get(sink)) is not None:
            await asyncio.wait([other])
        done = self._busy[sink] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self._busy[sink]
            done.set_result(None)

    # Giving up -------------------------------------------------------------------------------

    async def abort(self, sink: str, batch: int, names: Sequence[str] | None, over: bool = False) -> int:
        """Give up parts that are staged and not committed, all of the batch without `names`; how many.
        `over`: nobody tries the batch again, so its parts that come later are not kept."""
        if over:
            self._over[check_sink(sink), batch] = None
            if len(self._over) > OVER_MAX:
                del self._over[next(iter(self._over))]
        async with self._turn(check_sink(sink)):
            wanted = [part for part in self.staging.of(sink, batch) if names is None or part.name in names]
            given_up = [part for part in wanted if not self._is_left(part)]
            self._drop(given_up)
            return len(given_up)

    async def drop_copies(self) -> int:
        """Give up all parts with copies of messages that are staged and not committed, their files too; how many.
        Messages have been erased, and who replays must look again at what there is: the commit says that the
        parts are gone."""
        dropped = 0
        for sink in {part.sink for part in self.staging.all() if part.copies}:
            async with self._turn(sink):
                copies = [part for part in self.staging.of_sink(sink) if part.copies and not self._is_left(part)]
                for part in copies:
                    self.staging.forget(part)
                await asyncio.to_thread(self.staging.remove, copies)
                dropped += len(copies)
        return dropped

    async def forget(self, sink: str) -> None:
        """Forget a sink: its next batch may have any number. Raises `SinkNotFound`, `StoreUnwritable`."""
        async with self._turn(check_sink(sink)):
            known = self.state.by_name.get(sink)
            if known is None:
                raise SinkNotFound(f"there is no sink {sink[:200]!r}")
            if known.left:
                await self._end_earlier(sink)
            await self._record({"op": FORGET, "sink": sink})

    def _drop(self, parts: list[Part]) -> None:
        """Let parts go: from the table now, from the disk in a thread."""
        for part in parts:
            self.staging.forget(part)
        if parts:
            asyncio.get_running_loop().run_in_executor(None, self.staging.remove, parts)

    def _is_left(self, part: Part) -> bool:
        known = self.state.by_name.get(part.sink)
        return known is not None and part.batch == known.batch and part.name in known.left

    def _is_over(self, part: Part) -> bool:
        return self.state.is_over(part.sink, part.batch, part.name, part.token)

    async def read_piece(self, token: str, begin: int, bytes_max: int) -> tuple[bytes, int]:
        """Bytes of the file of a part, and how many it has: for another replica. Raises `PartNotFound`; `Busy` where
        that can't be known now."""
        try:
            async with self._sends:
                return await asyncio.to_thread(self.staging.read_piece, token, begin, bytes_max)
        except FileNotFoundError:
            raise PartNotFound(f"there is no part {token[:100]!r}") from None
        except OSError as error:
            raise Busy(f"part {token} can't be read now: {error}") from None
