"""Routes of operations: the broker, its health, its metrics."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ConfigDict, Field

from lakemq import __version__
from lakemq.contract import routes
from lakemq.contract.limits import NUMBER_MAX
from lakemq.gateway.access.caller import Caller, caller_of
from lakemq.gateway.http.by_fastapi import serves
from lakemq.gateway.routing.jobs import Heartbeat, Jobs
from lakemq.gateway.work.work import Work
from lakemq.logs.levels import NAMES_MAX
from lakemq.model.access import Action, Kind, Need, Resource
from lakemq.model.errors import InvalidRequest, LakemqError, StoreUnwritable
from lakemq.model.forwarded import is_forwarded
from lakemq.model.names import ADDRESS_MAX, check_address
from lakemq.model.network import same_machine
from lakemq.storage.log.commit_log import CommitLog
from lakemq.web.asgi import Client, Scope, client_of

Text = Annotated[str, Field(max_length=300)]
_OF_JOBS = (Action.GET, Action.ROUTE, Action.COMPACT, Action.ERASE)
"""On the cluster: who has them all is taken for the jobs, as docs/security.md says."""


class Compacted(BaseModel):
    """How far the lake holds everything."""

    model_config = ConfigDict(extra="forbid", strict=True)
    compacted_position: int = Field(ge=0)


class Beat(BaseModel):
    """That a job is alive. It has read the log, of these topics or all, below `position`, and by the broker's
    time `clock_ms`; without a position it is no reader of the log."""

    model_config = ConfigDict(extra="forbid", strict=True)
    name: str = Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")
    position: int | None = Field(None, ge=0, le=NUMBER_MAX)
    clock_ms: int = Field(0, ge=0, le=NUMBER_MAX)
    topics: list[Annotated[str, Field(max_length=300)]] | None = Field(None, max_length=16)


class LogLevels(BaseModel):
    """What a process writes to its log; `change`: the last that it was told, and what of that it could not do."""

    model_config = ConfigDict(extra="forbid", strict=True)
    process: Text
    change: Text
    levels: dict[Text, Text] = Field(max_length=NAMES_MAX + 1)
    back_in_ms: dict[Text, Annotated[int, Field(ge=0, le=NUMBER_MAX)]] = Field(max_length=NAMES_MAX + 1)
    refused: list[Text] = Field(max_length=10)


class Beats(BaseModel):
    """What a process with jobs says of them, every few seconds."""

    model_config = ConfigDict(extra="forbid", strict=True)
    jobs: list[Beat] = Field(max_length=32)
    sql: str | None = Field(None, max_length=ADDRESS_MAX, description="where this process answers SQL, if it does")
    log_levels: LogLevels | None = None


class Operated(Protocol):
    """The broker, as who operates it sees it."""

    name: str

    async def describe(self, client: Client) -> dict[str, Any]:
        """What it is and how far."""
        ...

    async def degraded(self, client: Client) -> list[str]:
        """What is wrong while it takes and gives messages all the same, a line each."""
        ...

    def tell_compacted(self, position: int) -> None:
        """The lake holds everything below."""
        ...


def _heartbeat(said: Beat) -> Heartbeat:
    topics = None if said.topics is None else frozenset(said.topics)
    return Heartbeat(said.name, said.position, said.clock_ms, topics)


def _is_here(scope: Scope) -> bool:
    """Whether who asks is on this machine, and asks for nobody else."""
    server = scope.get("server")
    return same_machine(client_of(scope), server[0] if server else None) and not is_forwarded(scope["headers"])


async def _hear(jobs: Jobs, caller: Caller, body: Beats, here: bool) -> dict[str, str]:
    """Take it; what is to be said of what wasn't taken."""
    sql = body.sql and check_address(body.sql).rstrip("/")
    jobs.hear(_heartbeat(each) for each in body.jobs)
    if body.log_levels is not None:
        jobs.levels.hear(body.log_levels.model_dump() | {"jobs": [each.name for each in body.jobs]})
    if not sql:
        return {}
    try:
        await _hear_sql(jobs, caller, sql, here)
    except LakemqError as error:  # which keeps no job from being alive
        return {"sql_refused": error.detail}
    return {}


async def _hear_sql(jobs: Jobs, caller: Caller, sql: str, here: bool) -> None:
    """Clients send their tokens to there, an administrator's too: so only the jobs may say where that is, and who said
    it is on record first. Raises `Forbidden`, `Busy`, `FlowControl`, `StoreUnwritable`."""
    for action in _OF_JOBS:
        caller.check(Need((action,), Resource(Kind.CLUSTER), guarded=True))
    if jobs.is_news(caller.name, sql):
        await caller.changes(f"PUT /v1/jobs sql={sql}")
    jobs.hear_sql(caller.name, sql, here)


def make_router(
    broker: Operated, log: CommitLog, jobs: Jobs, work: Work, metrics: Callable[[Client], Awaitable[bytes]]
) -> APIRouter:
    """The routes of one broker."""
    router = APIRouter()
    made = secrets.token_hex(4)  # of another process, or another time to lead, the same number says nothing

    @serves(router, routes.HEALTH)
    async def healthz() -> dict[str, str]:  # pyright: ignore[reportUnusedFunction]
        return {"status": "up"}

    @serves(router, routes.READY)
    async def readyz(request: Request) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        if log.unwritable is not None:
            raise StoreUnwritable(log.unwritable)
        if work.leaving or work.waiters.stopping:
            raise StoreUnwritable("the gateway is stopping")
        may_know = caller_of(request.scope).may(Need((Action.LIST, Action.GET), Resource(Kind.CLUSTER)))
        wrong = {"degraded": await broker.degraded(client_of(request.scope))} if may_know else {}
        return {"status": "ready"} | wrong

    @serves(router, routes.METRICS)
    async def get_metrics(request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        client = client_of(request.scope)
        async with work.listing.place(client):
            return Response(await metrics(client), media_type=CONTENT_TYPE_LATEST)

    @serves(router, routes.BROKER)
    async def describe(request: Request) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        described = await broker.describe(client_of(request.scope))
        return {**described, **jobs.sql_for(_is_here(request.scope)), "version": __version__}

    @serves(router, routes.HEAR_JOBS)
    async def hear(request: Request, body: Beats) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        refused = await _hear(jobs, caller_of(request.scope), body, _is_here(request.scope))
        schemas = f"{made}-{log.topics.schema_changes}"
        return {"broker": broker.name, "log_levels": jobs.levels.wanted(), "schemas": schemas} | refused

    @serves(router, routes.COMPACTED)
    async def compacted(body: Compacted) -> dict[str, int]:  # pyright: ignore[reportUnusedFunction]
        if body.compacted_position > log.next_position:
            raise InvalidRequest(f"the log ends with position {log.visible_position}")
        broker.tell_compacted(body.compacted_position)
        return {"compacted_position": body.compacted_position}

    return router
