"""Routes of sinks. That of a part only hands on to the handler that `front.py` calls: it documents it in
`/docs`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from lakemq.gateway.http.delegated import Delegated
from lakemq.gateway.routes.front import Front
from lakemq.gateway.sinks.committer import BATCH_MAX, describe
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


_PART_DOC: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/vnd.apache.arrow.stream": {}}},
    "parameters": [
        {"name": "topic", "in": "query", "required": True, "schema": {"type": "string"}},
        {"name": "group", "in": "query", "schema": {"type": "string"}, "description": "the one group that gets them"},
    ],
}


def make_router(front: Front) -> APIRouter:
    """The routes of one broker."""
    router = APIRouter(prefix="/v1/sinks", tags=["sinks"])
    sinks = front.broker.sinks

    def all_of(state: SinkState, staging: Staging) -> list[dict[str, Any]]:
        return [describe(name, state, staging) for name in sorted(state.by_name)]

    @router.get("", summary="All sinks")
    async def sinks_all() -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        staging = sinks.staging
        staged = {"staged_parts": staging.count, "staged_bytes": staging.bytes}
        return {"sinks": all_of(sinks.state, staging), **staged}

    @router.get("/{sink}", summary="A sink's last batch and progress")
    async def one(sink: str) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return describe(sink, sinks.state, sinks.staging)

    @router.delete("/{sink}", summary="Forget a sink")
    async def forget(sink: str) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        await sinks.forget(sink)
        return {"sink": sink, "forgotten": True}

    @router.put("/{sink}/batches/{batch}/parts/{part}", openapi_extra=_PART_DOC, summary="Stage a part")
    async def stage(  # pyright: ignore[reportUnusedFunction]
        sink: str, batch: str, part: str, request: Request
    ) -> Response:
        return Delegated(front.stage, request.scope["path"])

    @router.post("/{sink}/batches/{batch}/commit", summary="Make a batch's parts visible, all or none")
    async def commit(sink: str, batch: Batch, body: Commit) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        done = await sinks.commit(sink, batch, body.parts, body.progress, body.once)
        return {"sink": sink, "batch": batch, "new": done.new, "messages": done.messages, "dropped": done.dropped}

    @router.post("/{sink}/batches/{batch}/abort", summary="Give up parts that are not committed")
    async def abort(sink: str, batch: Batch, body: Abort) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return {"given_up": await sinks.abort(sink, batch, body.parts, body.over)}

    return router
