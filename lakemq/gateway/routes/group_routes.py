"""Routes of consumer groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from lakemq.contract import client_routes, routes
from lakemq.contract.limits import NUMBER_MAX, OFFSET_MAX
from lakemq.gateway.access.caller import caller_of
from lakemq.gateway.filter.selector import Selector
from lakemq.gateway.groups import Groups
from lakemq.gateway.groups.locks import Locks
from lakemq.gateway.groups.offsets import Offsets, QueueOffset
from lakemq.gateway.http.by_fastapi import serves
from lakemq.gateway.http.in_slices import respond
from lakemq.gateway.http.long_body import LongBodyRoute
from lakemq.gateway.http.part_of_list import Limit, Name, PartOfList
from lakemq.gateway.http.text import check_text
from lakemq.gateway.routes.client_routes import StatusBody, asker_of
from lakemq.gateway.routes.topics_of_group import READS, check_topics, sight_of_topics
from lakemq.gateway.work.work import Work
from lakemq.model.access import Action
from lakemq.model.errors import InvalidRequest
from lakemq.model.names import check_group, check_readable
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.state.member import Member, Subscription
from lakemq.web.asgi import client_of
from lakemq.web.gate import Gate
from lakemq.web.gone import client_gone

QUEUES_MAX = 10_000
SUBSCRIPTIONS_MAX = 1_000
EXPRESSION_CHARACTERS_MAX = 4_096
EXPRESSIONS_CHARACTERS_MAX = 64 * 1024
"""Of one member's together: each is looked at with every heartbeat."""
CLIENT_ID_CHARACTERS_MAX = 256
QUEUE_ID_MAX = 2**31
Strict = ConfigDict(extra="forbid", strict=True)


Text = Annotated[str, AfterValidator(check_text)]
ClientId = Annotated[Text, Field(min_length=1, max_length=CLIENT_ID_CHARACTERS_MAX)]
PathClientId = Annotated[str, Path(min_length=1, max_length=CLIENT_ID_CHARACTERS_MAX)]
QueueId = Annotated[int, Field(ge=0, le=QUEUE_ID_MAX)]


class SubscriptionBody(BaseModel):
    """What a member wants of one topic."""

    model_config = Strict
    topic: Text
    type: Literal["tag", "sql92"] = "tag"
    expression: Text = Field("*", max_length=EXPRESSION_CHARACTERS_MAX)


class HeartbeatBody(BaseModel):
    """A member of a group, as it wants to be known."""

    model_config = Strict
    model: Literal["clustering", "broadcasting"] = "clustering"
    consume_from: Literal["last", "first", "timestamp"] = "last"
    consume_timestamp_ms: int | None = Field(None, ge=0, le=NUMBER_MAX)
    client: StatusBody | None = None
    """How it is, for people who look: no part of its membership."""
    subscriptions: list[SubscriptionBody] = Field(default_factory=list[SubscriptionBody], max_length=SUBSCRIPTIONS_MAX)


class GroupBody(BaseModel):
    """How a group is to be."""

    model_config = Strict
    consume_enabled: bool


class OffsetBody(BaseModel):
    """The next offset to consume of one queue."""

    model_config = Strict
    topic: Text
    queue_id: QueueId
    offset: int = Field(ge=0, le=OFFSET_MAX)


class OffsetsBody(BaseModel):
    """Offsets to commit. `if_absent`: only of queues that have none. `resets`: what the group's
    members were told; after a later reset nothing is stored."""

    model_config = Strict
    offsets: list[OffsetBody] = Field(max_length=QUEUES_MAX)
    if_absent: bool = False
    resets: int | None = Field(None, ge=0, le=OFFSET_MAX)


class ResetBody(BaseModel):
    """Where a group is to go on with a topic."""

    model_config = Strict
    topic: Text
    to: Literal["earliest", "latest", "timestamp"]
    timestamp_ms: int | None = Field(None, ge=0, le=NUMBER_MAX)


class QueueBody(BaseModel):
    """A queue."""

    model_config = Strict
    topic: Text
    queue_id: QueueId


class LocksBody(BaseModel):
    """Queues that a client wants for itself, or no longer."""

    model_config = Strict
    client_id: ClientId
    queues: list[QueueBody] = Field(max_length=QUEUES_MAX)

    def keys(self) -> list[tuple[str, int]]:
        """The queues, as the log names them."""
        return [(each.topic, each.queue_id) for each in self.queues]

    def topics(self) -> Iterable[str]:
        """The topics that these are of."""
        return (each.topic for each in self.queues)


async def to_member(body: HeartbeatBody) -> Member:
    """Who is heard of. Raises `InvalidRequest`, `InvalidTopic`, `InvalidFilter`."""
    if body.consume_from == "timestamp" and body.consume_timestamp_ms is None:
        raise InvalidRequest("consume_from timestamp needs consume_timestamp_ms")
    subscriptions = [Subscription(each.topic, each.type, each.expression) for each in body.subscriptions]
    if sum(len(each.expression) for each in subscriptions) > EXPRESSIONS_CHARACTERS_MAX:
        raise InvalidRequest(f"the expressions have more than {EXPRESSIONS_CHARACTERS_MAX} characters together")
    if len({each.topic for each in subscriptions}) < len(subscriptions):
        raise InvalidRequest("subscriptions has a topic twice")
    for each in subscriptions:
        check_readable(each.topic)
        await (Selector.soon(None, each.expression) if each.type == "sql92" else Selector.soon(each.expression))
    return Member(body.model, body.consume_from, body.consume_timestamp_ms, tuple(sorted(subscriptions)))


def make_router(groups: Groups, log: CommitLog, work: Work) -> APIRouter:
    """The routes of a log's groups."""
    router = APIRouter(route_class=LongBodyRoute)
    _add_members(router, groups, log, work.limits.wait_ms_max)
    _add_offsets(router, groups.offsets, work.listing)
    _add_locks(router, groups.locks, log)

    @serves(router, routes.GROUPS)
    async def list_groups(  # pyright: ignore[reportUnusedFunction]
        request: Request, prefix: Name = "", contains: Name = "", after: Name = "", limit: Limit = None
    ) -> Response:
        part = PartOfList(prefix, contains, after, limit)
        async with work.listing.place(client_of(request.scope)):
            found, following = await groups.list(sight_of_topics(caller_of(request.scope)), part)
            return await respond({"groups": iter(found)} | ({} if limit is None else {"next_after": following}))

    @serves(router, routes.GROUP)
    async def get_group(request: Request, group: str) -> Response:  # pyright: ignore[reportUnusedFunction]
        async with work.listing.place(client_of(request.scope)):
            sees = sight_of_topics(caller_of(request.scope))
            return await respond(await groups.describe(check_group(group), sees))

    @serves(router, client_routes.PUT_GROUP)
    async def put_group(group: str, body: GroupBody) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        made = await groups.enable(check_group(group), body.consume_enabled)
        return {"group": group, "consume_enabled": made.consume_enabled, "generation": made.generation}

    @serves(router, routes.DELETE_GROUP)
    async def delete_group(group: str) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        await groups.delete(check_group(group))
        return {"group": group, "deleted": True}

    return router


def _add_members(router: APIRouter, groups: Groups, log: CommitLog, wait_ms_max: int) -> None:
    members = groups.members

    async def answer(group: str, request: Request) -> Response:
        sees = sight_of_topics(caller_of(request.scope))
        return Response(await members.answer(groups.find(group), sees), media_type="application/json")

    @serves(router, routes.HEARTBEAT)
    async def heartbeat(  # pyright: ignore[reportUnusedFunction]
        request: Request, group: str, client_id: PathClientId, body: HeartbeatBody
    ) -> Response:
        member = await to_member(body)
        topics = [each.topic for each in member.subscriptions]
        await check_topics(caller_of(request.scope), check_group(group), (Action.SUB,), topics)
        await members.heartbeat(group, client_id, member)
        status = (body.client or StatusBody()).status()
        members.clients.member_said(group, client_id, asker_of(request), status, log.now_ms())
        return await answer(group, request)

    @serves(router, routes.LEAVE)
    async def leave(request: Request, group: str, client_id: PathClientId) -> Response:  # pyright: ignore[reportUnusedFunction]
        await members.leave(check_group(group), client_id)
        return await answer(group, request)

    @serves(router, routes.MEMBERS)
    async def wait(  # pyright: ignore[reportUnusedFunction]
        request: Request,
        group: str,
        generation: Annotated[int | None, Query(ge=0, le=OFFSET_MAX)] = None,
        wait_ms: Annotated[int, Query(ge=0)] = 0,
    ) -> Response:
        if wait_ms > wait_ms_max:
            raise InvalidRequest(f"wait_ms is at most {wait_ms_max}")
        groups.find(check_group(group))
        if generation is not None and wait_ms:
            await members.wait(group, generation, wait_ms, client_gone(request.scope), client_of(request.scope))
        return await answer(group, request)


def _add_offsets(router: APIRouter, offsets: Offsets, listing: Gate) -> None:
    async def describe(found: Iterable[QueueOffset], since_ms: int | None = None) -> Response:
        since = {} if since_ms is None else {"since_ms": since_ms}
        return await respond({"offsets": (each._asdict() for each in found)} | since)

    @serves(router, routes.OFFSETS)
    async def get_offsets(request: Request, group: str, topic: str | None = None) -> Response:  # pyright: ignore[reportUnusedFunction]
        wanted = topic if topic is None else check_readable(topic)
        sees = sight_of_topics(caller_of(request.scope))
        async with listing.place(client_of(request.scope)):
            found = (each for each in offsets.of(check_group(group), wanted) if sees(each.topic))
            return await describe(found, offsets.since_ms(group, wanted) if wanted and sees(wanted) else None)

    @serves(router, routes.COMMIT_OFFSETS)
    async def commit(request: Request, group: str, body: OffsetsBody) -> Response:  # pyright: ignore[reportUnusedFunction]
        await check_topics(caller_of(request.scope), check_group(group), READS, (each.topic for each in body.offsets))
        wanted = [QueueOffset(each.topic, each.queue_id, each.offset) for each in body.offsets]
        found = await offsets.commit(group, wanted, body.if_absent, body.resets)
        return await describe(found)

    @serves(router, routes.RESET_OFFSETS)
    async def reset(request: Request, group: str, body: ResetBody) -> Response:  # pyright: ignore[reportUnusedFunction]
        if body.to == "timestamp" and body.timestamp_ms is None:
            raise InvalidRequest("to timestamp needs timestamp_ms")
        await check_topics(caller_of(request.scope), check_group(group), READS, [body.topic])
        found = await offsets.reset(group, body.topic, body.to, body.timestamp_ms or 0)
        return await describe(found)


def _add_locks(router: APIRouter, locks: Locks, log: CommitLog) -> None:
    async def describe(name: str, queues: list[tuple[str, int]]) -> Response:
        described = ({"topic": topic, "queue_id": queue_id} for topic, queue_id in queues)
        return await respond({name: described, "lock_ms": locks.expiry_ms})

    @serves(router, routes.LOCK)
    async def lock(request: Request, group: str, body: LocksBody) -> Response:  # pyright: ignore[reportUnusedFunction]
        await check_topics(caller_of(request.scope), check_group(group), (Action.SUB,), body.topics())
        found = await locks.acquire(group, body.client_id, body.keys(), log.topics)
        return await describe("locked", found)

    @serves(router, routes.UNLOCK)
    async def unlock(request: Request, group: str, body: LocksBody) -> Response:  # pyright: ignore[reportUnusedFunction]
        await check_topics(caller_of(request.scope), check_group(group), (Action.SUB,), body.topics())
        found = await locks.release(group, body.client_id, body.keys())
        return await describe("unlocked", found)
