"""Routes of sinks, but for their parts."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path
from pydantic import BaseModel, ConfigDict, Field

from lakemq.contract import routes
from lakemq.gateway.http.by_fastapi import serves
from lakemq.gateway.sinks.committer import BATCH_MAX, Sinks, describe
from lakemq.gateway.sinks.staging import Staging
from lakemq.storage.state.sinks import SinkState

PARTS_MAX = 10_000
PROGRESS_CHARACTERS_MAX = 4_096
Strict = ConfigDict(extra="forbid", strict=True)
Batch = Annotated[int, Path(ge=0, le=BATCH_MAX)]
Name = Annotated[str, Field(max_length=127)]


class Commit(BaseModel):
    """Which parts are the batch. `progress`: what the committer wants to find again. `once`: the sink has
    no other batch, and is forgotten some time after."""

    model_config = Strict
    parts: list[Name] = Field(max_length=PARTS_MAX)
    progress: str = Field(default="", max_length=PROGRESS_CHARACTERS_MAX)
    once: bool = False


class Abort(BaseModel):
    """Which parts are given up; without, all of the batch. `over`: nobody tries this batch again, so that its
    parts that are still on their way are not kept either."""

    model_config = Strict
    parts: list[Name] | None = Field(default=None, max_length=PARTS_MAX)
    over: bool = False


def make_router(sinks: Sinks) -> APIRouter:
    """The routes of one broker."""
    router = APIRouter()

    def all_of(state: SinkState, staging: Staging) -> list[dict[str, Any]]:
        return [describe(name, state, staging) for name in sorted(state.by_name)]

    @serves(router, routes.SINKS)
    async def sinks_all() -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        staging = sinks.staging
        staged = {"staged_parts": staging.count, "staged_bytes": staging.bytes}
        return {"sinks": all_of(sinks.state, staging), **staged}

    @serves(router, routes.SINK)
    async def one(sink: str) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return describe(sink, sinks.state, sinks.staging)

    @serves(router, routes.FORGET_SINK)
    async def forget(sink: str) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        await sinks.forget(sink)
        return {"sink": sink, "forgotten": True}

    @serves(router, routes.COMMIT_BATCH)
    async def commit(sink: str, batch: Batch, body: Commit) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        done = await sinks.commit(sink, batch, body.parts, body.progress, body.once)
        return {"sink": sink, "batch": batch, "new": done.new, "messages": done.messages, "dropped": done.dropped}

    @serves(router, routes.ABORT_BATCH)
    async def abort(sink: str, batch: Batch, body: Abort) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return {"given_up": await sinks.abort(sink, batch, body.parts, body.over)}

    return router
