"""Request and reply: a message that waits for another as its answer.

The request is a message in its topic with two properties: `correlation_id`, which whoever consumes it
answers to, and `ttl_ms`, how long anybody waits. The reply is a message in `REPLY_TOPIC`. Who waits is
known in memory only: a request from before a restart has no answer any more.
"""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from lakemq.gateway.placement.placement import place_draft, row_of
from lakemq.gateway.work.work import Work
from lakemq.model.errors import Busy, InvalidRequest, RequestNotFound, RequestTimeout
from lakemq.model.message import Draft
from lakemq.model.names import REPLY_TOPIC
from lakemq.storage.log.appends import OneAppend
from lakemq.storage.log.topic_changes import Maker, TopicChanges
from lakemq.storage.read.store import Store
from lakemq.storage.slices.messages import to_dicts
from lakemq.storage.state.topics import Queue
from lakemq.web.asgi import Client
from lakemq.web.gone import finish
from lakemq.web.room import Room

CORRELATION_ID = "correlation_id"
TTL_MS = "ttl_ms"


class _Pending:
    """A client's request that waits: until `woken`, for its `reply`. `storing`: that one is being stored."""

    __slots__ = ("client", "reply", "storing", "woken")

    def __init__(self, client: Client) -> None:
        self.client = client
        self.woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.storing: asyncio.Future[None] | None = None
        self.reply: dict[str, Any] | None = None


class Requests:
    """The requests that wait for their replies: at most so many, and of them a share of one client's."""

    def __init__(self, store: Store, topics: TopicChanges, waiting_max: int, work: Work) -> None:
        self._store = store
        self._topics = topics
        self._room = Room.shared(waiting_max, work.limits.client_share)
        self._waiters = work.waiters
        self._counters = work.counters
        self._pending: dict[str, _Pending] = {}

    def __len__(self) -> int:
        return len(self._pending)

    async def ask(self, topic_name: str, draft: Draft, timeout_ms: int, client: Client, maker: Maker) -> str:
        """Store the request; returns its correlation id, to `wait` with at once.

        Raises `Busy` with nothing stored, and what storing a message raises.
        """
        if self._room.is_full:
            raise Busy(f"{self._room.taken} requests wait for replies already (requests.waiting_max)")
        if self._room.is_full_for(client):
            raise Busy("this client has as many requests that wait for replies as it may (gateway.client_share)")
        correlation_id = uuid.uuid4().hex
        # Before it is stored: the reply may be as quick as the answer.
        self._pending[correlation_id] = _Pending(client)
        self._room.take(client)
        try:
            topic = await self._topics.writable(topic_name, maker)
            properties = {CORRELATION_ID: correlation_id, TTL_MS: str(timeout_ms)}
            await self._append(draft, place_draft(draft, topic), properties)
            await self._store.log.keep_promise()
        except BaseException:
            self._forget(correlation_id)
            raise
        return correlation_id

    def _forget(self, correlation_id: str) -> None:
        self._room.leave(self._pending.pop(correlation_id).client)

    async def wait(self, correlation_id: str, timeout_ms: int, gone: asyncio.Future[Any]) -> dict[str, Any]:
        """The reply's message, as the contract's JSON. Stops waiting when who asked is `gone`; raises
        `RequestTimeout`, and `Busy` when the gateway stops."""
        pending = self._pending[correlation_id]
        try:
            await self._waiters.wait(pending.woken, timeout_ms / 1000, gone, bounded=False)
            if pending.storing is not None:  # it came in time
                await asyncio.wait([pending.storing])
        finally:
            self._forget(correlation_id)
        if pending.reply is None:
            if self._waiters.stopping:
                raise Busy("the gateway stops")
            raise RequestTimeout(f"no reply came within {timeout_ms} ms")
        return pending.reply

    async def reply(self, correlation_id: str, draft: Draft) -> dict[str, Any]:
        """Answer a request; returns the reply's message. Raises `RequestNotFound` when nobody waits for
        it any more, and what storing a message raises."""
        pending = self._pending.get(correlation_id)
        if pending is None or pending.storing is not None:
            raise RequestNotFound(f"nobody waits for a reply to {correlation_id[:100]!r}")
        storing = pending.storing = asyncio.get_running_loop().create_future()
        try:
            queue = (await self._topics.system(REPLY_TOPIC)).queues[0]
            position = await self._append(draft, queue, {CORRELATION_ID: correlation_id})
            message = await self._read(position)
            # Who asked waits no more for what is written: it may be shown to him.
            if (unseen := self._store.log.until_shown()) is not None:
                await unseen
            pending.reply = message
        except BaseException:
            pending.storing = None  # another may come
            raise
        finally:
            storing.set_result(None)
        finish(pending.woken)
        return message

    async def _append(self, draft: Draft, queue: Queue, properties: dict[str, str]) -> int:
        """Store the message with these properties beside its own; returns its position."""
        if draft.delay_level or draft.delay_ms or draft.deliver_at_ms is not None:
            raise InvalidRequest("a request and its reply can't be delayed")
        marked = draft._replace(properties={**(draft.properties or {}), **properties})
        _, _, position, _ = await self._store.log.append(OneAppend(row_of(marked), queue))
        topic = self._store.log.topics.find(queue.topic)
        self._counters.took(1, len(draft.body), None if topic is None else topic.traffic)
        return position

    async def _read(self, position: int) -> dict[str, Any]:
        reader = self._store.reader
        plan = await self._store.plans.message(position, asyncio.to_thread)
        part = reader.read_message(plan) if reader.cached(plan) else await asyncio.to_thread(reader.read_message, plan)
        return to_dicts(part, self._store.ids)[0]
