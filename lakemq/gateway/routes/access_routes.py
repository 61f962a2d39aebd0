"""Routes of users, their policies and tokens."""

from __future__ import annotations

import json
import os
from typing import Annotated, Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from lakemq.contract import sql_routes
from lakemq.contract import user_routes as routes
from lakemq.contract.limits import NUMBER_MAX
from lakemq.gateway.access.caller import caller_of
from lakemq.gateway.access.users import Users
from lakemq.gateway.http.by_fastapi import serves
from lakemq.gateway.http.in_slices import in_order, respond
from lakemq.model.access import (
    POLICIES_MAX,
    Kind,
    Need,
    Policy,
    User,
    check_user_name,
    need_of_topic,
    parse_action,
    parse_policy,
    parse_resource,
)
from lakemq.model.errors import InvalidRequest
from lakemq.model.quota import UNSAID
from lakemq.model.token import ID_BYTES, SECRET_BYTES, make_token
from lakemq.storage.state.access_state import Account, KeptToken
from lakemq.web.asgi import client_of
from lakemq.web.gate import Gate

POLICIES_CHARACTERS_MAX = 64 * 1024
"""Of one user's together, as they come."""
SPAN_MS_MAX = 10**11
"""Below it `expires_ms` is so long from now (three years), else a time: 10^11 was in 1973."""
Strict = ConfigDict(extra="forbid", strict=True)
ExpiresMs = Annotated[int | None, Field(ge=0, le=NUMBER_MAX)]
Word = Annotated[str, Field(max_length=200)]


class QuotasBody(BaseModel):
    """How much a user may take: 0: as much as there is; null: what the broker's settings say. What is left out stays as
    it is."""

    model_config = Strict
    requests_per_s: float | None = Field(None, description="requests a second")
    bytes_per_s: float | None = Field(None, description="bytes of bodies a second, of requests and answers together")
    connections: int | None = Field(None, description="connections that are open")
    topics: int | None = Field(None, description="topics that it made, and that are there")
    queues: int | None = Field(None, description="queues of these topics together")


class UserBody(BaseModel):
    """What a user should be like. What is left out stays as it is, or is the default."""

    model_config = Strict
    type: Word | None = Field(None, description="`super` or `normal`, the default")
    status: Word | None = Field(None, description="`enabled`, the default, or `disabled`")
    quotas: QuotasBody | None = None


class TokenBody(BaseModel):
    """When a token is over: a time since the epoch, or, below 10^11, so long from now; without, never. With `token_id`
    and `secret_hash` no token is made: there is one already."""

    model_config = Strict
    expires_ms: ExpiresMs = None
    token_id: str | None = Field(None, pattern=r"^[A-Za-z0-9]{1,32}$", description="of a token that is made elsewhere")
    secret_hash: str | None = Field(None, pattern=r"^[0-9a-f]{64}$", description="the SHA-256 of its secret, in hex")


class PoliciesBody(BaseModel):
    """All policies of a user: objects of `resource`, `actions`, `sources` and `decision`."""

    model_config = Strict
    policies: list[Any] = Field(max_length=POLICIES_MAX)


class AccessBody(BaseModel):
    """Who wants to do what."""

    model_config = Strict
    user: Word
    action: Word
    resource: Word
    source: Word | None = Field(None, description="the address from which; without, one that nobody knows")


def describe(user: User) -> dict[str, Any]:
    """A user in short: with its quotas where it has some of its own."""
    quotas = {} if user.quotas == UNSAID else _quotas(user)
    return {"user": user.name, "type": user.type.value, "status": user.status.value, **quotas}


def describe_all(account: Account) -> dict[str, Any]:
    """A user with all it has."""
    return {**describe(account.user), **_quotas(account.user), **_tokens(account), **_policies(account.user)}


def _quotas(user: User) -> dict[str, Any]:
    return {"quotas": user.quotas.fields()}


def _tokens(account: Account) -> dict[str, Any]:
    return {"tokens": [_describe_token(each) for each in account.tokens]}


def _describe_token(token: KeptToken) -> dict[str, Any]:
    return {"token_id": token.id, "created_ms": token.created_ms, "expires_ms": token.expires_ms}


def _policies(user: User) -> dict[str, Any]:
    return {"policies": [each.fields() for each in user.policies]}


def make_router(users: Users, listing: Gate, token_required: bool) -> APIRouter:
    """The routes of a broker's users. `token_required`: `auth.required`."""
    router = APIRouter()
    _add_users(router, users, listing)
    _add_tokens(router, users)
    _add_policies(router, users, token_required)
    return router


def _add_users(router: APIRouter, users: Users, listing: Gate) -> None:
    @serves(router, routes.USERS)
    async def list_users(request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        async with listing.place(client_of(request.scope)):
            found = await in_order(list(users.state.users.values()), lambda account: account.user.name)
            return await respond({"users": (describe(account.user) for account in found)})

    @serves(router, routes.USER)
    async def get_user(user: str) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return describe_all(users.find(check_user_name(user)))

    @serves(router, routes.PUT_USER, responses={201: {"description": "made"}})
    async def put_user(user: str, response: Response, body: UserBody | None = None) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        fields = body.model_dump(exclude_none=True, exclude={"quotas"}) if body else {}
        if body and body.quotas:  # of these, null says something
            fields["quotas"] = body.quotas.model_dump(exclude_unset=True)
        found, is_new = await users.put(check_user_name(user), fields)
        response.status_code = 201 if is_new else 200
        return describe(found)

    @serves(router, routes.DELETE_USER, status_code=204)
    async def delete_user(user: str) -> None:  # pyright: ignore[reportUnusedFunction]
        await users.delete(check_user_name(user))


def _add_tokens(router: APIRouter, users: Users) -> None:
    @serves(router, routes.TOKENS)
    async def list_tokens(user: str) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return _tokens(users.find(check_user_name(user)))

    @serves(router, routes.ADD_TOKEN, status_code=201)
    async def add_token(user: str, body: TokenBody | None = None) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        body = body or TokenBody()  # pyright: ignore[reportCallIssue]
        expires_ms = _time_of(body.expires_ms, users.now_ms())
        name, token_id, secret_hash = check_user_name(user), body.token_id, body.secret_hash
        if token_id is not None and secret_hash is not None:
            await users.add_token(name, token_id, secret_hash, expires_ms)
            return {"token_id": token_id, "expires_ms": expires_ms}
        if token_id is not None or secret_hash is not None:
            raise InvalidRequest("token_id and secret_hash of a token that is made elsewhere: both, or neither")
        token = make_token(os.urandom(ID_BYTES + SECRET_BYTES))
        await users.add_token(name, token.id, token.secret_hash, expires_ms)
        return {"token": token.text, "token_id": token.id, "expires_ms": expires_ms}

    @serves(router, routes.DELETE_TOKEN, status_code=204)
    async def delete_token(user: str, token_id: str) -> None:  # pyright: ignore[reportUnusedFunction]
        await users.delete_token(check_user_name(user), token_id)


def _add_policies(router: APIRouter, users: Users, token_required: bool) -> None:
    @serves(router, routes.POLICIES)
    async def get_policies(user: str) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return _policies(users.find(check_user_name(user)).user)

    @serves(router, routes.PUT_POLICIES)
    async def put_policies(user: str, body: PoliciesBody) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        policies = _parse_policies(body.policies)
        await users.put_policies(check_user_name(user), policies)
        return {"policies": [each.fields() for each in policies]}

    @serves(router, routes.ACCESS)
    async def access(body: AccessBody) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        need = _need_of(body.action, body.resource)
        verdict = users.find(check_user_name(body.user)).user.decide(need, body.source)
        return {"allowed": verdict.allowed, "by": verdict.by}

    @serves(router, sql_routes.OWN_ACCESS)
    async def own_access(request: Request) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        user = caller_of(request.scope).user
        if user is None:
            return {"user": None, "type": None, "status": None, "policies": [], "token_required": token_required}
        return {**describe(user), **_policies(user), "token_required": token_required}


def _time_of(expires_ms: int | None, now_ms: int) -> int | None:
    if expires_ms is None or expires_ms >= SPAN_MS_MAX:
        return expires_ms
    return now_ms + expires_ms


def _parse_policies(listed: list[Any]) -> list[Policy]:
    """All, or an error that says which is none."""
    if len(json.dumps(listed)) > POLICIES_CHARACTERS_MAX:
        raise InvalidRequest(f"a user's policies have {POLICIES_CHARACTERS_MAX} characters at most")
    policies: list[Policy] = []
    for number, each in enumerate(listed):
        try:
            policies.append(parse_policy(each))
        except InvalidRequest as error:
            raise InvalidRequest(f"policies[{number}]: {error.detail}") from None
    return policies


def _need_of(action: str, resource: str) -> Need:
    wanted, found = parse_action(action), parse_resource(resource)
    if found.name != "*" and found.name.endswith("*"):
        raise InvalidRequest("the resource is one, such as Topic:orders, or all of a kind, such as Topic:*")
    return need_of_topic((wanted,), found.name) if found.kind is Kind.TOPIC else Need((wanted,), found)
