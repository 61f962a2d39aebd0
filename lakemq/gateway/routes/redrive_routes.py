"""Routes of dead letters: redriven, discarded, listed."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from lakemq.contract import dead_letter_routes
from lakemq.contract.limits import NUMBER_MAX
from lakemq.contract.limits import OFFSET_MAX as QUEUE_OFFSET_MAX
from lakemq.gateway.access.caller import caller_of
from lakemq.gateway.groups import Groups
from lakemq.gateway.http.by_fastapi import serves
from lakemq.gateway.http.in_slices import respond
from lakemq.gateway.http.text import check_text
from lakemq.gateway.redrive import Discarder, Listing, Redriver
from lakemq.gateway.redrive.discarder import Discard
from lakemq.gateway.redrive.letters import Wanted
from lakemq.gateway.routes.topics_of_group import READS, sees_deleted, sight_of_topics
from lakemq.model.access import Action, need_of_group
from lakemq.model.dead_letter import LetterState
from lakemq.model.errors import RedriveNotFound
from lakemq.model.names import check_group, check_readable
from lakemq.web.asgi import client_of

RATE_MIN, RATE_MAX = 0.01, 100_000
RESULTS_MAX = 10_000
OFFSET_MAX = 2**31
LETTERS_MAX = 1_000
REASON_CHARACTERS_MAX = 200
Text = Annotated[str, AfterValidator(check_text), Query(max_length=REASON_CHARACTERS_MAX)]
# Written out where it stands, as all choices are: by itself an enumeration is documented apart.
State = Annotated[LetterState, WithJsonSchema({"type": "string", "enum": [each.value for each in LetterState]})]
TimeMs = Annotated[int, Query(ge=0, le=NUMBER_MAX)]


class RedriveBody(BaseModel):
    """Which dead letters are to be redriven, and how fast."""

    model_config = ConfigDict(extra="forbid", strict=True)
    where: str | None = None
    rate_per_s: int | float = Field(100, ge=RATE_MIN, le=RATE_MAX, allow_inf_nan=False)
    dry_run: bool = False


class DiscardBody(BaseModel):
    """Which dead letters are to be discarded."""

    model_config = ConfigDict(extra="forbid", strict=True)
    where: str | None = None
    up_to: int | None = Field(None, ge=0, le=NUMBER_MAX)
    dry_run: bool = False


def make_router(redriver: Redriver, discarder: Discarder, listing: Listing, groups: Groups) -> APIRouter:
    """The routes of one broker."""
    router = APIRouter()
    _add_listing(router, listing, groups)
    _add_discarding(router, discarder)

    @serves(router, dead_letter_routes.REDRIVE, status_code=202)
    async def begin(request: Request, group: str, body: RedriveBody) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        _check_predicate(request, group, body.where)
        redrive_id, matched, gone = await redriver.begin(
            check_group(group), body.where, body.rate_per_s, body.dry_run, caller_of(request.scope).name
        )
        return {"redrive_id": redrive_id, "matched": matched} | ({"gone": gone} if gone else {})

    @serves(router, dead_letter_routes.REDRIVEN)
    async def describe(  # pyright: ignore[reportUnusedFunction]
        request: Request,
        redrive_id: str,
        offset: Annotated[int, Query(ge=0, le=OFFSET_MAX)] = 0,
        results_max: Annotated[int, Query(alias="max", ge=0, le=RESULTS_MAX)] = 1_000,
    ) -> dict[str, Any]:
        def check(group: str, is_deleted: bool) -> None:
            caller = caller_of(request.scope)
            caller.check(need_of_group((Action.GET, Action.UPDATE), group), "its group")
            if is_deleted and not sees_deleted(caller):
                raise RedriveNotFound(f"the group of redrive {redrive_id[:200]!r} was deleted")

        return await redriver.describe(redrive_id, offset, results_max, check)

    return router


def _check_predicate(request: Request, group: str, where: str | None) -> None:
    """How many match says what is in them, one question after the other. Raises `Forbidden`."""
    if where is not None:
        caller_of(request.scope).check(need_of_group((Action.SUB,), group))


def _add_discarding(router: APIRouter, discarder: Discarder) -> None:
    @serves(router, dead_letter_routes.DISCARD)
    async def discard(request: Request, group: str, body: DiscardBody) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        _check_predicate(request, group, body.where)
        wanted = Discard(check_group(group), body.where, body.up_to, caller_of(request.scope).name)
        done = await discarder.discard(wanted, body.dry_run, client_of(request.scope))
        found = {"matched": done.matched, "discarded": done.discarded}
        return found | ({} if done.last is None else {"last": done.last}) | ({"gone": done.gone} if done.gone else {})


def _add_listing(router: APIRouter, listing: Listing, groups: Groups) -> None:
    @serves(router, dead_letter_routes.DEAD_LETTERS)
    async def list_letters(  # pyright: ignore[reportUnusedFunction]
        request: Request,
        group: str,
        state: State | None = None,
        reason: Text | None = None,
        cause: Text | None = None,
        topic: Text | None = None,
        begin_ms: TimeMs = 0,
        end_ms: TimeMs = NUMBER_MAX,
        after: Annotated[int, Query(ge=0, le=QUEUE_OFFSET_MAX)] = QUEUE_OFFSET_MAX,
        letters_max: Annotated[int, Query(alias="max", ge=1, le=LETTERS_MAX)] = 100,
    ) -> Response:
        groups.find(check_group(group))
        span = begin_ms or None, None if end_ms == NUMBER_MAX else end_ms
        wanted = Wanted(reason or None, topic if topic is None else check_readable(topic), *span, cause)
        sees = cache(sight_of_topics(caller_of(request.scope), READS))
        found = await listing.page(group, wanted, state, after, letters_max, sees, client_of(request.scope))
        return await respond({"group": group, "dead_letters": iter(found.letters), "next_after": found.next_after})
