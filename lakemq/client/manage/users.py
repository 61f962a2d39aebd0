"""Users, their tokens and their policies."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

from lakemq.client.manage.ask import Brokers
from lakemq.client.user_api import VALID_MS_MAX, NewToken
from lakemq.client.wrong_type import WrongType
from lakemq.contract import user_routes as routes
from lakemq.model.errors import InvalidRequest, LakemqError
from lakemq.model.token import ID_BYTES, SECRET_BYTES, make_token

UserType = Literal["super", "normal"]
UserStatus = Literal["enabled", "disabled"]


class PolicyInfo(NamedTuple):
    """What a user may or may not do. `resource`: for instance `Topic:orders`, `Topic:orders*` or `Group:*`. `actions`:
    for instance `Pub`, `Sub`, `Get`. `sources`: only from these addresses or networks; none: from everywhere."""

    resource: str
    actions: tuple[str, ...]
    decision: Literal["allow", "deny"] = "allow"
    sources: tuple[str, ...] = ()


class TokenInfo(NamedTuple):
    """A token without its secret. `expires_ms`: when it expires; None: never."""

    token_id: str
    created_ms: int
    expires_ms: int | None


class UserInfo(NamedTuple):
    """A user, as the first of `brokers` has it. `quotas`: `requests_per_s`, `bytes_per_s`, `connections`, `topics`
    and `queues`; 0: no limit, None: the broker's setting. `users` leaves `policies` and `tokens` empty."""

    user: str
    type: UserType
    status: UserStatus
    quotas: Mapping[str, float | None]
    policies: tuple[PolicyInfo, ...]
    tokens: tuple[TokenInfo, ...]
    brokers: tuple[str, ...]


class AccessAnswer(NamedTuple):
    """Whether a user may do something, and what decided it."""

    allowed: bool
    by: str


class Users:
    """Users of all brokers; with `broker`, of the one of that name. All of it takes a super user's token."""

    _brokers: Brokers

    async def users(self, *, broker: str | None = None) -> list[UserInfo]:
        """All users, sorted by name."""
        found = await self._brokers.each(lambda asked: asked.get(routes.USERS.at()), broker)
        by_name: dict[str, dict[str, Any]] = {}
        for name, answer in found.items():
            for content in answer["users"]:
                by_name.setdefault(content["user"], {})[name] = content
        return [_user(contents) for _, contents in sorted(by_name.items())]

    async def user(self, user: str, *, broker: str | None = None) -> UserInfo:
        """One user with its policies and tokens. Raises `UserNotFound`."""
        return _user(await self._brokers.each(lambda asked: asked.get(routes.USER.at(user)), broker))

    async def put_user(
        self,
        user: str,
        *,
        type: UserType | None = None,
        status: UserStatus | None = None,
        quotas: Mapping[str, float | None] | None = None,
        broker: str | None = None,
    ) -> UserInfo:
        """Create a user, or change the given settings. A new user is `normal` and `enabled`, and may do nothing yet.
        Raises `InvalidRequest`."""
        said = {"type": type, "status": status, "quotas": quotas or None}
        content = {name: value for name, value in said.items() if value is not None}
        await self._brokers.each(lambda asked: asked.send(routes.PUT_USER.at(user), content), broker)
        return await self.user(user, broker=broker)

    async def delete_user(self, user: str, *, broker: str | None = None) -> None:
        """Delete a user with its policies and tokens. Raises `UserNotFound`."""
        await self._brokers.each(lambda asked: asked.request(routes.DELETE_USER.at(user)), broker)

    async def create_token(
        self, user: str, *, expires: timedelta | datetime | None = None, broker: str | None = None
    ) -> NewToken:
        """Create a token for a user: all brokers accept it, or none. Only this answer has its text. `expires`: the
        lifetime, or the time when it expires. Raises `UserNotFound`, `InvalidRequest`."""
        expires_ms, token = _expires_ms(expires), make_token(secrets.token_bytes(ID_BYTES + SECRET_BYTES))
        content = {"token_id": token.id, "secret_hash": token.secret_hash, "expires_ms": expires_ms}
        try:
            answers = await self._brokers.each(lambda asked: asked.send(routes.ADD_TOKEN.at(user), content), broker)
        except LakemqError:
            with suppress(LakemqError):  # one that didn't answer may have taken it
                await self.delete_token(user, token.id, broker=broker)
            raise
        return NewToken(token.text, token.id, next(iter(answers.values()))["expires_ms"])

    async def delete_token(self, user: str, token_id: str, *, broker: str | None = None) -> None:
        """Revoke a token. Raises `UserNotFound`, `TokenNotFound`."""
        await self._brokers.each(lambda asked: asked.request(routes.DELETE_TOKEN.at(user, token_id)), broker)

    async def set_policies(self, user: str, policies: Sequence[PolicyInfo], *, broker: str | None = None) -> UserInfo:
        """Replace all policies of a user; `user` answers those that it has. Raises `UserNotFound`, `InvalidRequest`."""
        content = {"policies": [each._asdict() for each in policies]}
        await self._brokers.each(lambda asked: asked.send(routes.PUT_POLICIES.at(user), content), broker)
        return await self.user(user, broker=broker)

    async def may(
        self, user: str, action: str, resource: str, *, source: str | None = None, broker: str | None = None
    ) -> dict[str, AccessAnswer]:
        """Whether a user may do something, from an address, by the name of each broker. Raises `UserNotFound`,
        `InvalidRequest`."""
        content = {"user": user, "action": action, "resource": resource}
        content |= {} if source is None else {"source": source}
        found = await self._brokers.each(lambda asked: asked.send(routes.ACCESS.at(), content), broker)
        return {name: AccessAnswer(answer["allowed"], answer["by"]) for name, answer in found.items()}


def _expires_ms(expires: timedelta | datetime | None) -> int | None:
    if expires is None:
        return None
    if isinstance(expires, datetime):
        if expires.tzinfo is None:
            raise InvalidRequest("expires needs a time zone, such as datetime.timezone.utc")
        return int(expires.timestamp() * 1000)
    if not isinstance(expires, timedelta):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise WrongType("expires is a timedelta or a datetime", expires)
    valid_ms = expires // timedelta(milliseconds=1)
    if not 0 < valid_ms < VALID_MS_MAX:
        raise InvalidRequest(f"a token expires after more than 0 and less than {VALID_MS_MAX // 86_400_000:,} days")
    return valid_ms


def _user(found: Mapping[str, Mapping[str, Any]]) -> UserInfo:
    """What brokers answer of one user, by name."""
    content = next(iter(found.values()))
    return UserInfo(
        user=content["user"],
        type=content["type"],
        status=content["status"],
        quotas=content.get("quotas", {}),
        policies=tuple(
            PolicyInfo(each["resource"], tuple(each["actions"]), each["decision"], tuple(each["sources"]))
            for each in content.get("policies", ())
        ),
        tokens=tuple(
            TokenInfo(each["token_id"], each["created_ms"], each["expires_ms"]) for each in content.get("tokens", ())
        ),
        brokers=tuple(found),
    )
