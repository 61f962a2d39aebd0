"""Routes of transactions. Those of single halves and resolutions only hand on to the handler that
`front.py` calls: they document it in `/docs`."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from lakemq.gateway.http.asgi import until_gone
from lakemq.gateway.http.delegated import Delegated
from lakemq.gateway.routes.front import Front
from lakemq.model.errors import InvalidRequest
from lakemq.model.names import check_group

BATCH_MAX = 10_000
_ACK = {"name": "ack", "in": "query", "schema": {"enum": ["async", "sync"], "default": "async"}}
_GROUP = {"name": "producer_group", "in": "query", "required": True, "schema": {"type": "string"}}
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


def make_router(front: Front) -> APIRouter:
    """The routes of one broker."""
    router = APIRouter(prefix="/v1", tags=["transactions"])
    broker, routing = front.broker, front.broker.router

    @router.post(
        "/topics/{topic}/transactions",
        openapi_extra={"parameters": [_GROUP, _ACK]},
        summary="Begin transactions: store halves",
    )
    async def begin(topic: str, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        return Delegated(front.transact, request.scope["path"])

    @router.post(
        "/transactions/{transaction_id}", openapi_extra={"parameters": [_ACK]}, summary="Resolve a transaction"
    )
    async def resolve(transaction_id: str, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        return Delegated(front.transact, request.scope["path"])

    @router.post("/transactions", summary="Resolve many transactions")
    async def resolve_many(body: Resolutions) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        pairs = [(each.transaction_id, each.resolution) for each in body.resolutions]
        results = await routing.transactions.resolve_many(pairs, check_group(body.producer_group))
        await broker.keep_promise()
        return {"results": [result._asdict() for result in results]}

    @router.get("/producer-groups/{group}/checks", summary="Halves that the broker wants an answer for")
    async def checks(  # pyright: ignore[reportUnusedFunction]
        request: Request,
        group: str,
        client_id: Annotated[str, Query(max_length=256)] = "",
        wait_ms: Annotated[int, Query(ge=0)] = 0,
    ) -> dict[str, Any]:
        if wait_ms > broker.settings.gateway.wait_ms_max:
            raise InvalidRequest(f"wait_ms is at most {broker.settings.gateway.wait_ms_max}")
        gone = asyncio.ensure_future(until_gone(request.receive))
        try:
            return {"checks": await routing.checks.poll(check_group(group), wait_ms, gone)}
        finally:
            gone.cancel()

    return router
