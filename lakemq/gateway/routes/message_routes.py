"""Routes that find messages: by key, by id."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from lakemq.contract import routes
from lakemq.contract.limits import NUMBER_MAX
from lakemq.gateway.access.caller import caller_of
from lakemq.gateway.cold import ColdReader
from lakemq.gateway.cold.by_key import KeySearch, Sought
from lakemq.gateway.http.by_fastapi import serves
from lakemq.model.access import Action, need_of_topic
from lakemq.model.errors import MessageNotFound, PositionGone
from lakemq.model.names import SCHEDULE_TOPIC, check_readable
from lakemq.storage.lake.cold_rows import ColdSlice
from lakemq.storage.read.reader import Slice
from lakemq.storage.read.store import Store
from lakemq.storage.slices.messages import to_dicts

FOUND_MAX = 1_000


def make_router(store: Store, cold: ColdReader, bytes_max: int) -> APIRouter:
    """The routes of what is stored. A search takes about so much memory."""
    router = APIRouter()
    log, reader, ids, _ = store
    searches = KeySearch(log, reader, cold, ids, bytes_max)

    @serves(router, routes.MESSAGES_BY_KEY)
    async def by_key(  # pyright: ignore[reportUnusedFunction]
        topic: str,
        key: Annotated[str, Query(min_length=1)],
        begin_ms: Annotated[int, Query(ge=0, le=NUMBER_MAX)] = 0,
        end_ms: Annotated[int, Query(ge=0, le=NUMBER_MAX)] = NUMBER_MAX,
        messages_max: Annotated[int, Query(alias="max", ge=1, le=FOUND_MAX)] = 32,
    ) -> dict[str, Any]:
        log.topics.get(check_readable(topic))
        messages, complete = await searches.find(Sought(topic, key, begin_ms, end_ms, messages_max))
        return {"messages": messages, "complete": complete}

    @serves(router, routes.MESSAGE)
    async def message(request: Request, message_id: str) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        position = ids.position(message_id)
        part = await _find(store, cold, position)
        if part is None:
            raise MessageNotFound(f"there is no message at position {position}, neither in the log nor in the lake")
        found = to_dicts(part, ids)[0]
        # Who scheduled a message may look at it while it waits in a topic of the system.
        topic = found["real_topic"] if found["topic"] == SCHEDULE_TOPIC else found["topic"]
        caller_of(request.scope).check(need_of_topic((Action.SUB, Action.GET), topic), "the message's topic")
        # A topic that was made again has the same queues: what was deleted lies below their floors.
        if found["queue_offset"] < log.topics.floor(found["topic"], found["queue_id"]):
            raise MessageNotFound(f"the topic of message {message_id!r} was deleted")
        return found

    return router


async def _find(store: Store, cold: ColdReader, position: int) -> Slice | ColdSlice | None:
    """The message at the position. Raises `MessageNotFound`, `LogDamaged`, `LakeUnreadable`."""
    if position >= store.log.visible_position:
        raise MessageNotFound(f"the log holds no message at position {position} that may be read")
    if position >= store.log.min_position:
        plan = store.reader.plan_message(position)
        with suppress(PositionGone):  # retention was faster
            return await asyncio.to_thread(store.reader.read_message, plan)
    return await cold.message(position)
