"""Routes of operations: the broker, its health, its metrics."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from pydantic import BaseModel, ConfigDict, Field

from lakemq import __version__
from lakemq.contract import routes
from lakemq.contract.limits import NUMBER_MAX
from lakemq.gateway.broker.broker import Broker
from lakemq.gateway.http.by_fastapi import serves
from lakemq.gateway.routes.metrics import BrokerCollector
from lakemq.gateway.routing.jobs import Heartbeat
from lakemq.model.errors import InvalidRequest, StoreUnwritable


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


class Beats(BaseModel):
    """What a process with jobs says of them, every few seconds."""

    model_config = ConfigDict(extra="forbid", strict=True)
    jobs: list[Beat] = Field(max_length=32)


def make_router(broker: Broker) -> APIRouter:
    """The routes of one broker."""
    router = APIRouter()
    registry = CollectorRegistry()
    registry.register(BrokerCollector(broker))

    @serves(router, routes.HEALTH)
    async def healthz() -> dict[str, str]:  # pyright: ignore[reportUnusedFunction]
        return {"status": "up"}

    @serves(router, routes.READY)
    async def readyz() -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        if broker.log.unwritable is not None:
            raise StoreUnwritable(broker.log.unwritable)
        if broker.stopping:
            raise StoreUnwritable("the gateway is stopping")
        return {"status": "ready", "degraded": broker.degraded()}

    @serves(router, routes.METRICS)
    async def metrics() -> Response:  # pyright: ignore[reportUnusedFunction]
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    @serves(router, routes.BROKER)
    async def describe() -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return {**broker.describe(), "version": __version__}

    @serves(router, routes.HEAR_JOBS)
    async def hear(body: Beats) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        broker.router.jobs.hear(
            Heartbeat(each.name, each.position, each.clock_ms, None if each.topics is None else frozenset(each.topics))
            for each in body.jobs
        )
        return {"broker": broker.name}

    @serves(router, routes.COMPACTED)
    async def compacted(body: Compacted) -> dict[str, int]:  # pyright: ignore[reportUnusedFunction]
        if body.compacted_position > broker.log.next_position:
            raise InvalidRequest(f"the log ends with position {broker.log.next_position}")
        broker.letting_go.tell(body.compacted_position)
        return {"compacted_position": body.compacted_position}

    return router
