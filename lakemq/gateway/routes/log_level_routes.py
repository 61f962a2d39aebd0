"""Routes by which an operator sees and changes what this process writes to its log."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from lakemq.contract import log_level_routes as routes
from lakemq.gateway.http.by_fastapi import serves
from lakemq.gateway.routing.job_levels import JobLevels
from lakemq.logs import LEVELS
from lakemq.logs.levels import FOR_MS_MAX, NAMES_MAX

Name = Annotated[str, Field(max_length=200)]


class Levels(BaseModel):
    """Which levels, by logger; none: as the one above it. `for_ms`: and then what they are now without this. `of`: of
    this process, or of all that run jobs for this broker, which are told within seconds."""

    model_config = ConfigDict(extra="forbid", strict=True)
    levels: dict[Name, Annotated[str, Field(max_length=20)] | None] = Field(min_length=1, max_length=NAMES_MAX)
    for_ms: int | None = Field(None, ge=1, le=FOR_MS_MAX)
    of: Literal["broker", "jobs"] = "broker"


def make_router(of_jobs: JobLevels) -> APIRouter:
    """The routes of one process."""
    router = APIRouter()

    def describe() -> dict[str, Any]:
        return {**LEVELS.describe(), "jobs": of_jobs.describe()}

    @serves(router, routes.LEVELS)
    async def levels() -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return describe()

    @serves(router, routes.PUT_LEVELS)
    async def put_levels(body: Levels) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        if body.of == "jobs":
            return {"change": of_jobs.change(body.levels, body.for_ms), **describe()}
        LEVELS.change(body.levels, body.for_ms)
        if body.for_ms is not None:
            asyncio.get_running_loop().call_later(body.for_ms / 1000 + 0.001, LEVELS.expire)
        return describe()

    return router
