"""Routes of topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from lakemq.contract import routes
from lakemq.contract.limits import NUMBER_MAX, TIMES_MAX
from lakemq.gateway.access.caller import Caller, caller_of
from lakemq.gateway.cold import ColdReader
from lakemq.gateway.http.by_fastapi import serves
from lakemq.gateway.http.in_slices import all_of, respond
from lakemq.gateway.http.part_of_list import Limit, Name, PartOfList
from lakemq.model.access import Action, need_of_topic
from lakemq.model.errors import InvalidRequest
from lakemq.model.names import check_readable, check_writable, is_system
from lakemq.model.topic_config import TopicConfig, changed
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.log.topic_changes import TopicChanges
from lakemq.storage.read.spans import Span
from lakemq.storage.state.topics import Queue, Topic
from lakemq.web.asgi import Client, client_of
from lakemq.web.gate import Gate

Times = Annotated[int, Query(ge=0, le=TIMES_MAX)]
TimesFrom = Annotated[int, Query(ge=0, le=NUMBER_MAX)]
_NO_SPANS: Mapping[int, Span] = MappingProxyType({})


class TopicBody(BaseModel):
    """What a topic should be like. What is left out stays as it is, or is the default."""

    model_config = ConfigDict(extra="forbid", strict=True)
    queues: int | None = Field(None, ge=1)
    permission: str | None = None
    message_type: str | None = None
    ttl_ms: int | None = None
    message_bytes_max: int | None = None


def describe(topic: Topic, min_offset: Callable[[Queue], int], spans: Mapping[int, Span] = _NO_SPANS) -> dict[str, Any]:
    """A topic as the contract shows it. `log_min_offset` is the first offset that is in the log still;
    what comes before is in the lake. `messages`: offsets that a crash or a restore skipped are none. `expired` counts
    since the broker began. `spans`: by queue."""
    return {
        "topic": topic.name,
        "permission": topic.permission,
        **topic.config._asdict(),
        "expired": topic.expired,
        "queues": [
            {
                "queue_id": queue.queue_id,
                "min_offset": begin,
                "max_offset": queue.end_offset,
                "log_min_offset": queue.begin_offset,
                "messages": queue.visible_from(begin),
                **(spans[queue.queue_id]._asdict() if queue.queue_id in spans else {}),
            }
            for queue in topic.queues
            for begin in (min_offset(queue),)
        ],
    }


def _may_see(caller: Caller, topic: str) -> bool:
    """Whether a list shows him this topic of the system. That there is one is no secret where nobody says who he is."""
    need = need_of_topic((Action.GET, Action.LIST, Action.SUB), topic)
    return not caller.name or caller.may(need)


def _check_put(caller: Caller, topic: str, auto: bool, old: Topic | None) -> Topic | None:
    """The topic as it is, if it may be changed so; None: it may be made. Raises `Forbidden`, `Unauthenticated`."""
    change = Action.UPDATE if old else Action.CREATE
    caller.check(need_of_topic((Action.PUB, change) if auto else (change,), topic))
    return old


async def _put(
    changes: TopicChanges, topic: str, body: TopicBody | None, message_bytes_max: int, caller: Caller
) -> tuple[Topic, bool]:
    """Make the topic, or change it to what the body says; whether it was made. Raises `Forbidden`, `InvalidRequest`,
    `OverQuota`, `StoreUnwritable`."""
    body, is_new = body or TopicBody(), False  # pyright: ignore[reportCallIssue]
    given = body.model_dump(include=set(TopicConfig._fields))

    def check(found: Topic | None) -> None:
        nonlocal is_new
        is_new = _check_put(caller, topic, False, found) is None

    made = await changes.put(
        topic,
        body.queues,
        body.permission,
        lambda config: changed(config, given, message_bytes_max),
        maker=caller,
        check=check,
    )
    return made, is_new


async def _spans(
    cold: ColdReader, queues: Sequence[Queue], begins: Mapping[int, int], client: Client
) -> dict[int, Span]:
    """Since when these have messages, by their ids. `begins`: their first offsets, likewise."""
    spans = await cold.spans(queues, [begins[each.queue_id] for each in queues], client) if queues else []
    return {queue.queue_id: span for queue, span in zip(queues, spans, strict=True)}


def make_router(
    log: CommitLog, changes: TopicChanges, cold: ColdReader, listing: Gate, message_bytes_max: int
) -> APIRouter:
    """The routes of a log's topics. `message_bytes_max`: of a body, at any topic."""
    router = APIRouter()
    _add_offsets(router, log, cold)
    _add_delete(router, changes)

    @serves(router, routes.TOPICS)
    async def list_topics(  # pyright: ignore[reportUnusedFunction]
        request: Request,
        system: bool = False,
        prefix: Name = "",
        contains: Name = "",
        after: Name = "",
        limit: Limit = None,
    ) -> Response:
        caller = caller_of(request.scope)
        async with listing.place(client_of(request.scope)):
            shown = [topic.name for topic in log.topics if not is_system(topic.name)]
            if system:
                names = (topic.name for topic in list(log.topics) if is_system(topic.name))
                shown += await all_of(name for name in names if _may_see(caller, name))
            names, following = await PartOfList(prefix, contains, after, limit).of(shown)
            there = (topic for name in names if (topic := log.topics.find(name)) is not None)
            described = (describe(topic, cold.known_min_offset) for topic in there)
            return await respond({"topics": described} | ({} if limit is None else {"next_after": following}))

    @serves(router, routes.TOPIC)
    async def get_topic(  # pyright: ignore[reportUnusedFunction]
        request: Request, topic: str, times: Times = 0, times_from: TimesFrom = 0
    ) -> Response:
        found = log.topics.get(check_readable(topic))
        begins = {queue.queue_id: await cold.min_offset_or_logs(queue) for queue in list(found.queues)}
        timed = [each for each in found.queues[times_from : times_from + times] if each.queue_id in begins]
        spans = await _spans(cold, timed, begins, client_of(request.scope))
        return await respond(describe(found, lambda queue: begins.get(queue.queue_id, queue.begin_offset), spans))

    @serves(router, routes.PUT_TOPIC, responses={201: {"description": "made"}})
    async def put_topic(  # pyright: ignore[reportUnusedFunction]
        request: Request, topic: str, response: Response, auto: bool = False, body: TopicBody | None = None
    ) -> dict[str, Any]:
        caller = caller_of(request.scope)
        check_writable(topic)
        old = _check_put(caller, topic, auto, log.topics.find(topic))
        is_new = old is None
        if auto:
            if body is not None:
                raise InvalidRequest("with auto=true a topic is as its first message makes it: leave out the body")
            if old is None:
                await caller.changes(f"PUT /v1/topics/{topic}?auto=true")
            made = old or await changes.writable(topic, caller)
        else:
            await caller.changes(f"PUT /v1/topics/{topic}")
            made, is_new = await _put(changes, topic, body, message_bytes_max, caller)
        response.status_code = 201 if is_new else 200
        return describe(made, cold.known_min_offset)

    return router


def _add_delete(router: APIRouter, changes: TopicChanges) -> None:
    @serves(router, routes.DELETE_TOPIC)
    async def delete_topic(topic: str) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        await changes.delete(check_writable(topic))
        return {"topic": topic, "deleted": True}


def _add_offsets(router: APIRouter, log: CommitLog, cold: ColdReader) -> None:
    @serves(router, routes.OFFSET_BY_TIME)
    async def offset_by_time(  # pyright: ignore[reportUnusedFunction]
        topic: str, queue_id: int, timestamp_ms: int = Query(ge=0, le=NUMBER_MAX)
    ) -> dict[str, int]:
        queue = log.topics.queue(check_readable(topic), queue_id)
        return {"offset": await cold.offset_at_time(queue, timestamp_ms)}
