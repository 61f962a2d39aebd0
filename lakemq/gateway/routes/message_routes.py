"""Routes of produce, pull and look-up by id.

The first two only hand on to the handlers that `front.py` calls: they are reached by paths that
the front doesn't recognize, and they document the hot paths in `/docs`.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from lakemq.gateway.broker.broker import Broker
from lakemq.gateway.cold.by_key import KeySearch, Sought
from lakemq.gateway.http.answers import to_dicts
from lakemq.gateway.http.asgi import Receive, Scope, Send
from lakemq.gateway.routes.front import Front
from lakemq.model.errors import MessageNotFound, PositionGone
from lakemq.model.names import check_readable
from lakemq.storage.lake.cold_rows import ColdSlice
from lakemq.storage.read.reader import Slice

TIME_MS_MAX = 2**53
FOUND_MAX = 1_000

_MESSAGE_EXAMPLE = {"messages": [{"body": "hello", "tag": "T", "keys": ["k1"], "properties": {"a": "b"}}]}
_PRODUCE_DOC: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"example": _MESSAGE_EXAMPLE},
            "application/x-ndjson": {"example": '{"body": "hello"}'},
            "application/vnd.apache.arrow.stream": {},
            "application/cloudevents+json": {},
            "application/cloudevents-batch+json": {},
            "application/octet-stream": {},
        },
    },
    "parameters": [
        {"name": "ack", "in": "query", "schema": {"enum": ["async", "sync", "none"], "default": "async"}},
        {"name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "maxLength": 256}},
    ],
}


def _query(name: str, kind: str, default: object, description: str) -> dict[str, Any]:
    schema = {"type": kind} if default is None else {"type": kind, "default": default}
    return {"name": name, "in": "query", "schema": schema, "required": default is None, "description": description}


_PULL_DOC: dict[str, Any] = {
    "parameters": [
        _query("offset", "integer", None, "the first offset wanted"),
        _query("max", "integer", 32, "at most so many messages"),
        _query("wait_ms", "integer", 0, "hold the request so long for a matching message"),
        _query("tags", "string", "*", "`A||B`, or `*`"),
        _query("sql", "string", "", "SQL92 over properties: `a > 5 AND b LIKE 'x%'`"),
        _query("group", "string", "", "the consumer group that asks"),
    ]
}


class _Delegate(Response):
    """A response that a handler of the front sends."""

    def __init__(self, front: Front, topic: str, queue_id: str | None) -> None:
        super().__init__()
        self._front = front
        self._topic = topic
        self._queue_id = queue_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._queue_id is None:
            await self._front.produce(scope, receive, send, self._topic)
        else:
            await self._front.pull(scope, receive, send, self._topic, self._queue_id)


def make_router(front: Front) -> APIRouter:
    """The routes of one broker."""
    router = APIRouter(prefix="/v1", tags=["messages"])
    broker = front.broker

    @router.post("/topics/{topic}/messages", openapi_extra=_PRODUCE_DOC, summary="Produce")
    async def produce(topic: str, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        return _Delegate(front, topic, None)

    @router.get("/topics/{topic}/queues/{queue_id}/messages", openapi_extra=_PULL_DOC, summary="Pull")
    async def pull(topic: str, queue_id: str, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        return _Delegate(front, topic, queue_id)

    searches = KeySearch(broker.log, broker.reader, broker.cold, broker.ids, broker.settings.gateway.pull_bytes_max)

    @router.get("/messages", summary="Messages by key, newest first")
    async def by_key(  # pyright: ignore[reportUnusedFunction]
        topic: str,
        key: Annotated[str, Query(min_length=1)],
        begin_ms: Annotated[int, Query(ge=0, le=TIME_MS_MAX)] = 0,
        end_ms: Annotated[int, Query(ge=0, le=TIME_MS_MAX)] = TIME_MS_MAX,
        messages_max: Annotated[int, Query(alias="max", ge=1, le=FOUND_MAX)] = 32,
    ) -> dict[str, Any]:
        broker.log.topics.get(check_readable(topic))
        messages, complete = await searches.find(Sought(topic, key, begin_ms, end_ms, messages_max))
        return {"messages": messages, "complete": complete}

    @router.get("/messages/{message_id}", summary="A message by its id")
    async def message(message_id: str) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        position = broker.ids.position(message_id)
        part = await _find(broker, position)
        if part is None:
            raise MessageNotFound(f"there is no message at position {position}, neither in the log nor in the lake")
        found = to_dicts(part, broker.ids)[0]
        # A topic that was made again has the same queues: what was deleted lies below their floors.
        if found["queue_offset"] < broker.log.topics.floor(found["topic"], found["queue_id"]):
            raise MessageNotFound(f"the topic of message {message_id!r} was deleted")
        return found

    return router


async def _find(broker: Broker, position: int) -> Slice | ColdSlice | None:
    """The message at the position. Raises `MessageNotFound`, `LogDamaged`, `LakeUnreadable`."""
    if position >= broker.log.min_position:
        plan = broker.reader.plan_message(position)
        with suppress(PositionGone):  # retention was faster
            return await asyncio.to_thread(broker.reader.read_message, plan)
    return await broker.cold.message(position)
