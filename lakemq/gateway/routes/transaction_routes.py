"""Routes of transactions: many resolutions at once, and checks."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from lakemq.contract import routes
from lakemq.gateway.access.caller import caller_of
from lakemq.gateway.http.by_fastapi import serves
from lakemq.gateway.http.in_slices import respond
from lakemq.gateway.http.long_body import LongBodyRoute
from lakemq.gateway.routing.router import Router
from lakemq.model.access import Action, need_of_topic
from lakemq.model.errors import InvalidRequest
from lakemq.model.names import check_group
from lakemq.web.asgi import client_of
from lakemq.web.gone import client_gone

BATCH_MAX = 10_000
Strict = ConfigDict(extra="forbid", strict=True)


class Resolution(BaseModel):
    """How one transaction ends."""

    model_config = Strict
    transaction_id: str = Field(max_length=200)
    resolution: str


class Resolutions(BaseModel):
    """How many transactions of one producer group end."""

    model_config = Strict
    producer_group: str
    resolutions: list[Resolution] = Field(min_length=1, max_length=BATCH_MAX)


def make_router(routing: Router, wait_ms_max: int) -> APIRouter:
    """The routes of one broker."""
    router = APIRouter(route_class=LongBodyRoute)

    @serves(router, routes.RESOLVE_MANY)
    async def resolve_many(  # pyright: ignore[reportUnusedFunction]
        request: Request, body: Resolutions
    ) -> Response:
        pairs = [(each.transaction_id, each.resolution) for each in body.resolutions]
        group, caller = check_group(body.producer_group), caller_of(request.scope)
        results = await routing.transactions.resolve_many(pairs, group, caller)
        return await respond({"results": (result._asdict() for result in results)})

    @serves(router, routes.CHECKS)
    async def checks(  # pyright: ignore[reportUnusedFunction]
        request: Request,
        group: str,
        client_id: Annotated[str, Query(max_length=256)] = "",
        wait_ms: Annotated[int, Query(ge=0)] = 0,
    ) -> dict[str, Any]:
        if wait_ms > wait_ms_max:
            raise InvalidRequest(f"wait_ms is at most {wait_ms_max}")
        caller, gone = caller_of(request.scope), client_gone(request.scope)

        def may(topic: str) -> bool:
            return caller.may(need_of_topic((Action.PUB,), topic))

        found = await routing.checks.poll(check_group(group), wait_ms, gone, may, client_of(request.scope))
        return {"checks": found}

    return router
