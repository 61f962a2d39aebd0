"""One broker: the log, and what the gateway keeps in memory beside it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from functools import partial
from typing import Any

import orjson

from lakemq.gateway.broker.counters import Counters
from lakemq.gateway.cold import ColdReader
from lakemq.gateway.decode import Limits
from lakemq.gateway.gaps.gaps import Gaps
from lakemq.gateway.groups import Groups
from lakemq.gateway.redrive import Redriver
from lakemq.gateway.routing.router import Router
from lakemq.gateway.sinks.committer import Sinks
from lakemq.gateway.upkeep.dropping import Dropping
from lakemq.gateway.upkeep.letting_go import LettingGo
from lakemq.gateway.upkeep.quarantine import Quarantine
from lakemq.gateway.work.gate import Gate
from lakemq.gateway.work.workshop import WAITING_MAX, Workshop
from lakemq.model.errors import Busy, InvalidRequest, LakemqError, ReadOnlyTopic
from lakemq.model.names import SYSTEM_PREFIXES, check_writable
from lakemq.settings import Settings
from lakemq.storage.backup.manifest import refuse_half_restored
from lakemq.storage.disk.clock import Clock, SystemClock, TrustedClock
from lakemq.storage.disk.files import Files
from lakemq.storage.disk.lock import DirectoryLock
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.mend.erasure import Eraser, remove_scratch
from lakemq.storage.mend.replacing import Replacing
from lakemq.storage.read.idempotency import IdempotencyTable
from lakemq.storage.read.row_reader import RowReader
from lakemq.storage.segment.rows import make_row
from lakemq.storage.state.message_ids import MessageIds
from lakemq.storage.state.secret_ids import SecretIds
from lakemq.storage.state.topics import TOPICS_TOPIC, Queue, Topic, TopicRecord

logger = logging.getLogger(__name__)

HOUSEKEEPING_S = 10.0
HOUSEKEEPING_FULL_S = 0.5


class Broker:
    """Everything behind the HTTP surface. Lives on one event loop."""

    def __init__(self, settings: Settings, files: Files | None = None, clock: Clock | None = None) -> None:
        self.settings = settings
        self.name = settings.broker.name
        self.clock = TrustedClock(clock or SystemClock(), settings.routing.clock_confirm_ms)
        self.limits = Limits(settings.gateway.message_bytes_max, settings.gateway.request_bytes_max)
        self.log = CommitLog(settings.storage, files or Files(), self.clock)
        self.reader = RowReader(self.log)
        self.ids = MessageIds(self.name)
        self.secret_ids = SecretIds(self.ids)
        self.cold = ColdReader(settings, self.log, self.reader, self.ids)
        self.letting_go = LettingGo(settings, self.log, self.cold.run)
        self.replacing = Replacing(self.log, self.reader)
        self.eraser = Eraser(self.log, self.reader, self.replacing)
        self.quarantine = Quarantine(settings, self.log, self.reader, self.cold.history)
        self.idempotency = IdempotencyTable(settings.idempotency.window_ms, settings.idempotency.keys_max)
        self.counters = Counters()
        self.gaps = Gaps()
        in_work = max(settings.gateway.request_bytes_in_flight_max // 2, settings.gateway.request_bytes_max)
        self.decoding = Workshop("decode", in_work, settings.gateway.client_share)
        self.answering = Workshop("answer", in_work, settings.gateway.client_share)
        self.listing = Gate(1, WAITING_MAX, settings.gateway.client_share)
        self.stopping = False
        self.router = Router(
            settings, self.log, self.reader, self.secret_ids, self.ids, self.clock, self.system_topic, self._wait_within
        )
        self.router.executor.read_cold = self.cold.parts
        self.dropping = Dropping(self.log, self.router)
        self.log.retention.on_segment(self.letting_go.look_again)
        self.redriver = Redriver(self.router.executor, self.cold)
        self.groups = Groups(
            settings.groups, self.log, self.reader, self.cold, self.gaps, self.system_topic, self._wait_within
        )
        limits, topics = self.limits, (self.system_topic, self.writable_topic)
        self.sinks = Sinks(settings, self.log, self.log.files, limits, *topics)
        self._waiting: set[asyncio.Future[None]] = set()
        self._creating: dict[str, asyncio.Future[Topic]] = {}
        self._recording = asyncio.Lock()
        self._lock: DirectoryLock | None = None
        self._housekeeper: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Take the data directory and recover its log. Raises `LogInUse`, `LogDamaged`, `BadBackup`, `OSError`."""
        directory = self.settings.storage.data_dir
        self.log.files.make_dirs(directory)
        refuse_half_restored(self.log.files, directory)
        self.log.files.tighten(directory, self.log.directory, self.sinks.staging.directory)
        self._lock = DirectoryLock(self.log.files, directory, f"the lakemq gateway {self.name!r}")
        self.log.open(self.quarantine.mend, self.quarantine.put_off)
        self.ids.open(self.log.identity)
        self.secret_ids.open(self.log.identity)
        remove_scratch(self.log.files, self.log.directory)
        self.quarantine.open()
        loop = asyncio.get_running_loop()
        self.quarantine.on_damage = partial(loop.call_soon_threadsafe, self.letting_go.look_again)
        self.reader.elsewhere = self.quarantine
        self.log.on_notes = self.idempotency.add
        self.idempotency.load(self.reader, self.log.retention.steady_ms)
        self._housekeeper = loop.create_task(self._keep_house())

    async def start(self) -> None:
        """Go on with what waits to be routed, and with the groups. Raises `LogDamaged`."""
        self.groups.start()
        await self.router.start()
        self.redriver.start()
        self.sinks.start()

    def begin_stop(self) -> None:
        """Answer all who wait, and let nobody wait from now on."""
        self.stopping = True
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def close(self) -> None:
        """Bring everything to disk and let the directory go."""
        self.begin_stop()
        if self._housekeeper is not None:
            self._housekeeper.cancel()
        await self.groups.close()
        await self.redriver.close()
        await self.sinks.close()
        await self.router.close()
        self.cold.close()
        self.decoding.close()
        self.answering.close()
        await self.log.close()
        self.unlock()

    def unlock(self) -> None:
        """Let the directory go, also when nothing was opened in it."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()

    async def _keep_house(self) -> None:
        while True:
            await asyncio.sleep(HOUSEKEEPING_FULL_S)
            if not self.log.full:
                await self.letting_go.news(HOUSEKEEPING_S)
            for step in (
                self.letting_go.let_go,
                self.router.make_room,
                self.dropping.drop,
                partial(self.quarantine.look_after, self.replacing, self.cold.run),
                self._forget_old,
            ):
                try:
                    await step()
                except (OSError, LakemqError) as error:
                    logger.warning("housekeeping failed, trying again later: %s", error)

    async def _forget_old(self) -> None:
        now_ms = self.log.retention.steady_ms
        self.idempotency.expire(now_ms)
        self.sinks.tidy(now_ms)

    # Waiting ---------------------------------------------------------------------------------

    async def wait(self, future: asyncio.Future[None], seconds: float, bounded: bool = True) -> None:
        """Return when the future is done, the time is over, or the broker stops. Raises `Busy` when too
        many wait, unless not `bounded`: for what has another bound, and has changed something already."""
        if self.stopping:
            return
        if bounded and len(self._waiting) >= self.settings.gateway.waiters_max:
            raise Busy(f"{len(self._waiting)} requests are waiting already")
        loop = asyncio.get_running_loop()
        timer = loop.call_later(seconds, finish, future)
        self._waiting.add(future)
        try:
            await future
        finally:
            timer.cancel()
            self._waiting.discard(future)

    async def wait_for_any(self, queues: Iterable[Queue], seconds: float) -> None:
        """`wait` for a message in any of the queues."""
        arrival: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        watched = list(queues)
        for queue in watched:
            queue.waiters.add(arrival)
        try:
            await self.wait(arrival, seconds)
        finally:
            for queue in watched:
                queue.waiters.discard(arrival)

    async def keep_promise(self, sync: bool = False) -> None:
        """Wait for the disk: when that is asked for, or when too much waits for it already."""
        if sync or self.settings.storage.flush == "sync" or self.log.backlogged:
            await self.log.flushed()

    async def _wait_within(self, future: asyncio.Future[None], seconds: float) -> bool:
        """`wait`; whether waiting has still a sense."""
        await self.wait(future, seconds)
        return not self.stopping

    @property
    def waiting(self) -> int:
        """How many requests wait."""
        return len(self._waiting)

    # Topics ----------------------------------------------------------------------------------

    async def writable_topic(self, name: str) -> Topic:
        """The topic to produce to, made when that is allowed. Raises `InvalidTopic`,
        `ReadOnlyTopic`, `TopicNotFound`, `StoreUnwritable`."""
        topic = self.log.topics.find(name)
        check_writable(name)
        if topic is None:
            if not self.settings.topics.auto_create:
                return self.log.topics.get(name)
            topic = await self._auto_create(name)
        if topic.permission == "r":
            raise ReadOnlyTopic(f"topic {name!r} is read-only")
        return topic

    async def _auto_create(self, name: str) -> Topic:
        creating = self._creating.get(name)
        if creating is None:
            creating = asyncio.ensure_future(self.put_topic(name, self.settings.topics.default_queues, "rw"))
            self._creating[name] = creating
            creating.add_done_callback(lambda _: self._creating.pop(name, None))
        return await asyncio.shield(creating)

    async def system_topic(self, name: str) -> Topic:
        """A topic of the system's, made with one queue when it is first needed: clients read it only.
        Raises `InvalidRequest` when there are too many topics, `StoreUnwritable`."""
        topic = self.log.topics.find(name)
        if topic is not None:
            return topic
        creating = self._creating.get(name)
        if creating is None:
            creating = asyncio.ensure_future(self._create_system_topic(name))
            self._creating[name] = creating
            creating.add_done_callback(lambda _: self._creating.pop(name, None))
        return await asyncio.shield(creating)

    async def _create_system_topic(self, name: str) -> Topic:
        async with self._recording:
            if name.startswith(SYSTEM_PREFIXES[0]):  # one a group: of the others there are only a few
                self._check_room_for(name, 1)
            await self._record({"op": "put", "topic": name, "queues": 1, "permission": "r"})
            return self.log.topics.get(name)

    def _check_room_for(self, name: str, queues: int) -> None:
        topics, limits = self.log.topics, self.settings.topics
        topic = topics.find(name)
        if topic is None and len(topics) >= limits.topics_max:
            raise InvalidRequest(f"there are {len(topics)} topics already (topics.topics_max)")
        count = topics.queue_count + queues - (len(topic.queues) if topic else 0)
        if count > limits.all_queues_max:
            raise InvalidRequest(f"there would be {count} queues of all topics together (topics.all_queues_max)")

    async def put_topic(self, name: str, queues: int, permission: str) -> Topic:
        """Make or change a topic; done when it stands in the log."""
        topics = self.log.topics
        async with self._recording:
            topics.check_put(name, queues, permission, self.settings.topics.queues_max)
            self._check_room_for(name, queues)
            await self._record({"op": "put", "topic": name, "queues": queues, "permission": permission})
            return topics.get(name)

    async def delete_topic(self, name: str) -> None:
        """Delete a topic: its messages are readable no more. Raises `TopicNotFound`."""
        async with self._recording:
            topic = self.log.topics.get(name)
            count = len(topic.queues)
            await self._record({"op": "delete", "topic": name, "queues": count, "permission": topic.permission})

    async def _record(self, record: TopicRecord) -> None:
        # One at a time, as each may make as many queues as a topic may have, and what there is room for is seen before.
        body = orjson.dumps(record)
        queue = self.log.topics.queue(TOPICS_TOPIC, 0)
        await self.log.append([make_row(body=body)], [queue], len(body))

    def degraded(self) -> list[str]:
        """What is wrong while the broker takes and gives messages all the same, a line each."""
        found = [f"the job {name} is not heard of any more" for name in self.router.jobs.dead()]
        overdue = self.router.overdue.count()
        found += self.quarantine.degraded() + self.letting_go.degraded() + self.dropping.degraded()
        found += [f"overdue: {count} of kind {kind}" for kind, count in overdue.items() if count]
        return found

    def describe(self) -> dict[str, Any]:
        """What `GET /v1/broker` says."""
        log = self.log
        positions = {
            "min_position": log.min_position,
            "max_position": log.next_position,
            "flushed_position": log.flushed_position,
            "compacted_position": log.compacted_position,
        }
        identity = {"log_id": log.identity.log_id, "epoch": log.identity.now.epoch}
        overdue = self.router.overdue.count()
        waits = {"jobs": self.router.jobs.describe(), "overdue": sum(overdue.values()), "overdue_by_kind": overdue}
        described = {"name": self.name, "role": "primary", **identity, "positions": positions, **positions, **waits}
        return {**described, "lake": self.letting_go.describe(), "steady_ms": log.retention.steady_ms}


def finish(future: asyncio.Future[None]) -> None:
    """Wake who waits for the future, unless that happened."""
    if not future.done():
        future.set_result(None)
