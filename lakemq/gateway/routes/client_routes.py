"""Routes of who is connected."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from lakemq.contract import client_routes
from lakemq.contract.limits import NUMBER_MAX
from lakemq.gateway.access.caller import caller_of
from lakemq.gateway.groups import Groups
from lakemq.gateway.groups.clients import Asker, Clients, Sight, Status, age_of, describe
from lakemq.gateway.http.by_fastapi import serves
from lakemq.gateway.http.in_slices import respond
from lakemq.gateway.http.text import check_text
from lakemq.gateway.routes.topics_of_group import sight_of_topics
from lakemq.gateway.work.work import Work
from lakemq.model.access import Action, Kind, Need, Resource, need_of_group, need_of_topic
from lakemq.model.names import check_group
from lakemq.storage.log.commit_log import CommitLog
from lakemq.web.asgi import client_of

CLIENT_ID_CHARACTERS_MAX = 256
TOPICS_MAX = 20
QUEUES_MAX = 100
"""Of one client: so many are named, and how many there are is a number beside them."""
Strict = ConfigDict(extra="forbid", strict=True)
Short = Annotated[str, AfterValidator(check_text), Field(max_length=64)]
Name = Annotated[str, AfterValidator(check_text), Field(max_length=255)]
Count = Annotated[int, Field(ge=0, le=NUMBER_MAX)]
PathClientId = Annotated[str, Path(min_length=1, max_length=CLIENT_ID_CHARACTERS_MAX)]
SEES_ALL = Need((Action.GET,), Resource(Kind.CLUSTER), guarded=True)


class HeldQueueBody(BaseModel):
    """A queue that a client has."""

    model_config = Strict
    topic: Name
    queue_id: int = Field(ge=0, le=2**31)


class StatusBody(BaseModel):
    """What a client says of itself."""

    model_config = Strict
    language: Short | None = None
    version: Short | None = None
    topics: list[Name] = Field(default_factory=list[str], max_length=TOPICS_MAX)
    queues: list[HeldQueueBody] = Field(default_factory=list[HeldQueueBody], max_length=QUEUES_MAX)
    queue_count: Count = 0
    paused: bool = False
    buffered: Count = 0
    stuck: Count = 0

    def status(self) -> Status:
        """As it is kept."""
        queues = tuple((each.topic, each.queue_id) for each in self.queues)
        count = max(self.queue_count, len(queues))
        topics = tuple(self.topics)
        return Status(self.language, self.version, topics, queues, count, self.paused, self.buffered, self.stuck)


class MemberBody(BaseModel):
    """How a member is to be."""

    model_config = Strict
    consume_enabled: bool


class ProducerBody(StatusBody):
    """What a producer says of itself."""

    producer_group: Name | None = None


def asker_of(request: Request) -> Asker:
    """Who asks, from where."""
    caller = caller_of(request.scope)
    return Asker(caller.name, caller.source)


class Lists:
    """Lists who is connected, for one who asks."""

    def __init__(self, groups: Groups, sight: Sight) -> None:
        self._groups = groups
        self._members = groups.members
        self._sight = sight

    def members(self, group: str) -> Iterator[Any]:
        """The members of a group, which is there."""
        found = self._groups.find(group)
        for client_id in list(found.members):
            heard = self._members.clients.member(group, client_id)
            age_ms = self._members.renewals.age_ms((group, client_id))
            shown = describe("consumer", client_id, group, heard, age_ms, self._sight)
            yield shown | {"consume_enabled": found.consume_enabled and client_id not in found.paused}

    def receivers(self, group: str | None = None) -> Iterator[Any]:
        """All who receive without being members, or those of a group."""
        for heard in self._members.clients.receivers(group):
            yield describe("receiver", None, heard.group, heard, age_of(heard), self._sight)

    def producers(self, group: str | None = None) -> Iterator[Any]:
        """All producers, or those of a group."""
        for client_id, heard in self._members.clients.producers(group):
            yield describe("producer", client_id, heard.group, heard, age_of(heard), self._sight)

    def everybody(self) -> Iterator[Any]:
        """All of them."""
        for group in self._groups.with_members():
            if self._groups.is_there(group):
                yield from self.members(group)
        yield from self.receivers()
        yield from self.producers()


def make_router(groups: Groups, log: CommitLog, work: Work) -> APIRouter:
    """The routes of who is connected."""
    router = APIRouter()
    _add_producers(router, groups.members.clients, log)

    def lists(request: Request) -> Lists:
        caller = caller_of(request.scope)
        return Lists(groups, Sight(caller.may(SEES_ALL), sight_of_topics(caller)))

    async def answer(request: Request, found: Iterator[Any]) -> Response:
        async with work.listing.place(client_of(request.scope)):
            return await respond({"clients": found})

    @serves(router, client_routes.CLIENTS)
    async def list_clients(request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        return await answer(request, lists(request).everybody())

    @serves(router, client_routes.GROUP_CLIENTS)
    async def list_members(request: Request, group: str) -> Response:  # pyright: ignore[reportUnusedFunction]
        groups.find(check_group(group))
        found = lists(request)
        return await answer(request, chain(found.members(group), found.receivers(group)))

    @serves(router, client_routes.PUT_MEMBER)
    async def put_member(group: str, client_id: PathClientId, body: MemberBody) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        made = await groups.members.enable(check_group(group), client_id, body.consume_enabled)
        enabled = client_id not in made.paused
        return {"group": group, "client_id": client_id, "consume_enabled": enabled, "generation": made.generation}

    @serves(router, client_routes.PRODUCER_CLIENTS)
    async def list_producers(request: Request, group: str) -> Response:  # pyright: ignore[reportUnusedFunction]
        return await answer(request, lists(request).producers(check_group(group)))

    return router


def _add_producers(router: APIRouter, clients: Clients, log: CommitLog) -> None:
    @serves(router, client_routes.PUT_CLIENT)
    async def put_client(request: Request, client_id: PathClientId, body: ProducerBody) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        group, caller = body.producer_group or "", caller_of(request.scope)
        if group:
            caller.check(need_of_group((Action.PUB,), check_group(group)))
        status = body.status()
        # Of other topics it is no producer, whatever it says.
        topics = tuple(each for each in status.topics if caller.may(need_of_topic((Action.PUB,), each)))
        clients.producer_said(client_id, group, asker_of(request), status._replace(topics=topics), log.now_ms())
        return {"client_id": client_id}

    @serves(router, client_routes.DELETE_CLIENT)
    async def delete_client(request: Request, client_id: PathClientId) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return {"client_id": client_id, "deleted": clients.producer_left(client_id, asker_of(request))}
