"""Routes of sinks, but for their parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from lakemq.contract import routes
from lakemq.contract.limits import OFFSET_MAX
from lakemq.gateway.fleet.replication import Replication
from lakemq.gateway.http.by_fastapi import serves
from lakemq.gateway.http.in_slices import respond
from lakemq.gateway.sinks.committer import Sinks
from lakemq.gateway.sinks.described import describe
from lakemq.gateway.sinks.naming import BATCH_MAX
from lakemq.gateway.sinks.staging import Staging
from lakemq.model.errors import SinkNotFound

PARTS_MAX = 10_000
PROGRESS_CHARACTERS_MAX = 4_096
Strict = ConfigDict(extra="forbid", strict=True)
Batch = Annotated[int, Path(ge=0, le=BATCH_MAX)]
Name = Annotated[str, Field(max_length=127)]
PIECE_BYTES_MAX = 4 * 1024 * 1024
OCTETS = "application/octet-stream"
Begin = Annotated[int, Query(alias="from", ge=0, le=OFFSET_MAX)]
PieceBytes = Annotated[int, Query(ge=1, le=PIECE_BYTES_MAX)]
Replica = Annotated[int | None, Query(ge=0, le=routes.REPLICA_MAX)]


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


def make_router(sinks: Sinks, replication: Replication | None) -> APIRouter:
    """The routes of one broker. Its followers, if there are any, are known to `replication`."""
    router = APIRouter()

    def all_of(staging: Staging) -> Iterator[dict[str, Any]]:
        shown = ((name, sinks.shown(name)) for name in sorted(sinks.state.by_name))
        return (describe(name, known, staging) for name, known in shown if known is not None)

    @serves(router, routes.SINKS)
    async def sinks_all() -> Response:  # pyright: ignore[reportUnusedFunction]
        staging = sinks.staging
        staged = {"staged_parts": staging.count, "staged_bytes": staging.bytes}
        return await respond({"sinks": all_of(staging), **staged})

    @serves(router, routes.SINK)
    async def one(sink: str) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        known = sinks.shown(sink)
        if known is None:
            raise SinkNotFound(f"there is no sink {sink[:200]!r}")
        return describe(sink, known, sinks.staging)

    @serves(router, routes.FORGET_SINK)
    async def forget(sink: str) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        await sinks.forget(sink)
        return {"sink": sink, "forgotten": True}

    @serves(router, routes.COMMIT_BATCH)
    async def commit(sink: str, batch: Batch, body: Commit) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        done = await sinks.commit(sink, batch, body.parts, body.progress, body.once)
        return {"sink": sink, "batch": batch, "new": done.new, "messages": done.messages, "dropped": done.dropped}

    @serves(router, routes.LOG_PART, response_class=Response)
    async def part(  # pyright: ignore[reportUnusedFunction]
        token: str,
        begin: Begin = 0,
        bytes_max: PieceBytes = PIECE_BYTES_MAX,
        replica: Replica = None,
    ) -> Response:
        piece, size = await sinks.read_piece(token, begin, bytes_max)
        if replication is not None and replica is not None and begin + len(piece) >= size:
            replication.offered_parts.taken(token, replica)
        return Response(piece, media_type=OCTETS, headers={"Lakemq-Part-Bytes": str(size)})

    @serves(router, routes.ABORT_BATCH)
    async def abort(sink: str, batch: Batch, body: Abort) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return {"given_up": await sinks.abort(sink, batch, body.parts, body.over)}

    return router
