"""What the server beside the jobs tells of users: what they take of it, what they have the jobs do, and what it refused
to them."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from lakemq.contract import jobs_routes
from lakemq.contract import sql_routes as routes
from lakemq.contract.limits import NUMBER_MAX
from lakemq.contract.sql_routes import REFUSALS_MAX, WHAT_CHARACTERS_MAX, WHY_CHARACTERS_MAX
from lakemq.gateway.access.audit import Audit, Entry
from lakemq.gateway.access.quotas import QuotaKeeper
from lakemq.gateway.access.users import Users
from lakemq.gateway.http.by_fastapi import serves
from lakemq.model.access import check_user_name
from lakemq.model.errors import OverQuota
from lakemq.model.request_id import is_request_id

Strict = ConfigDict(extra="forbid", strict=True)
Address = Annotated[str | None, Field(max_length=64)]
Id = Annotated[str, Field(max_length=128)]


class TakenBody(BaseModel):
    """What a user takes. With `requests` it is refused where the quota has no room, without it is counted whatever
    there is. `connections`: so many others to the jobs the user has, if the request is the first of its own."""

    model_config = Strict
    requests: int = Field(0, ge=0, le=1)
    bytes: int = Field(0, ge=0, le=NUMBER_MAX)
    connections: int = Field(0, ge=0, le=NUMBER_MAX)
    source: Address = None
    request_id: Id = ""


class RefusalBody(BaseModel):
    """`user`: empty where nobody knows who asked; `of`: what was asked; `what`: the kind of the statement, and its
    tables."""

    model_config = Strict
    user: str = Field("", max_length=200)
    source: Address = None
    what: str = Field("", max_length=WHAT_CHARACTERS_MAX)
    why: str = Field(max_length=WHY_CHARACTERS_MAX)
    request_id: Id = ""
    of: Literal["sql", "state", "run", "cancel"] = "sql"


class ChangeBody(BaseModel):
    """A user has the jobs run maintenance, or cancel a run."""

    model_config = Strict
    user: str = Field(min_length=1, max_length=200)
    source: Address = None
    of: Literal["run", "cancel"]
    job: str = Field(pattern=r"^[a-z-]{1,40}$")
    request_id: Id = ""


class RefusalsBody(BaseModel):
    """`missed`: there were so many more, for which there was no room."""

    model_config = Strict
    refusals: list[RefusalBody] = Field(max_length=REFUSALS_MAX)
    missed: int = Field(0, ge=0, le=NUMBER_MAX)


def make_router(users: Users, quotas: QuotaKeeper, audit: Audit | None) -> APIRouter:
    """The routes of one broker. `audit` None: nothing is written down."""
    router = APIRouter()

    @serves(router, routes.USAGE)
    async def take(user: str, body: TakenBody) -> dict[str, str]:  # pyright: ignore[reportUnusedFunction]
        found = users.find(check_user_name(user)).user
        try:
            quotas.take(found, body.requests, body.bytes, body.connections)
        except OverQuota as error:
            error.closes = False  # this connection is the jobs' own
            if audit is not None:
                audit.refused(Entry(user, body.source, _what("sql", ""), error.detail, _known(body.request_id)))
            raise
        return {}

    @serves(router, routes.REFUSALS)
    async def refuse(body: RefusalsBody) -> dict[str, str]:  # pyright: ignore[reportUnusedFunction]
        if audit is not None:
            audit.missed(body.missed)
            for each in body.refusals:
                what = _what(each.of, each.what)
                audit.refused(Entry(each.user, each.source, what, each.why, _known(each.request_id)))
        return {}

    @serves(router, routes.CHANGES)
    async def change(body: ChangeBody) -> dict[str, str]:  # pyright: ignore[reportUnusedFunction]
        if audit is not None:
            what = _what(body.of, "").replace("{job}", body.job)
            await audit.changes(Entry(body.user, body.source, what, "the jobs took it", _known(body.request_id)))
        return {}

    return router


_ASKED = {
    "sql": routes.STATEMENT,
    "state": jobs_routes.STATE,
    "run": jobs_routes.RUN,
    "cancel": jobs_routes.CANCEL,
}


def _what(of: str, said: str) -> str:
    """Of nothing else than these may others tell."""
    return f"{_ASKED[of].method} {_ASKED[of].path} {said}".rstrip()


def _known(request_id: str) -> str:
    return request_id if is_request_id(request_id) else ""
