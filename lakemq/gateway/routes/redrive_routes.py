"""Routes of redrives."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, ConfigDict, Field

from lakemq.contract import routes
from lakemq.gateway.access.caller import caller_of
from lakemq.gateway.http.by_fastapi import serves
from lakemq.gateway.redrive.redriver import Redriver
from lakemq.model.access import Action, need_of_group
from lakemq.model.names import check_group

RATE_MIN, RATE_MAX = 0.01, 100_000
RESULTS_MAX = 10_000
OFFSET_MAX = 2**31


class RedriveBody(BaseModel):
    """Which dead letters are to be redriven, and how fast."""

    model_config = ConfigDict(extra="forbid", strict=True)
    where: str | None = None
    rate_per_s: int | float = Field(100, ge=RATE_MIN, le=RATE_MAX, allow_inf_nan=False)
    dry_run: bool = False


def make_router(redriver: Redriver) -> APIRouter:
    """The routes of one broker."""
    router = APIRouter()

    @serves(router, routes.REDRIVE, status_code=202)
    async def begin(request: Request, group: str, body: RedriveBody) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        if body.where is not None:
            # How many match says what is in them, one question after the other.
            caller_of(request.scope).check(need_of_group((Action.SUB,), group))
        redrive_id, matched, gone = await redriver.begin(check_group(group), body.where, body.rate_per_s, body.dry_run)
        return {"redrive_id": redrive_id, "matched": matched} | ({"gone": gone} if gone else {})

    @serves(router, routes.REDRIVEN)
    async def describe(  # pyright: ignore[reportUnusedFunction]
        request: Request,
        redrive_id: str,
        offset: Annotated[int, Query(ge=0, le=OFFSET_MAX)] = 0,
        results_max: Annotated[int, Query(alias="max", ge=0, le=RESULTS_MAX)] = 1_000,
    ) -> dict[str, Any]:
        def check(group: str) -> None:
            caller_of(request.scope).check(need_of_group((Action.GET, Action.UPDATE), group), "its group")

        return await redriver.describe(redrive_id, offset, results_max, check)

    return router
