"""The contract's requests about users and their rights. They need a super user's token."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from lakemq.contract import sql_routes
from lakemq.contract import user_routes as routes
from lakemq.contract.route import Target

Call = Callable[[Target, Mapping[str, Any] | None], dict[str, Any]]
"""Sends a body, or none, and returns what is answered."""
VALID_MS_MAX = 10**11
"""Of a token: what is longer would be read as a time."""


class NewToken(NamedTuple):
    """A new token: `token` is only shown once. `expires_ms`: when it expires; None: never."""

    token: str
    token_id: str
    expires_ms: int | None

    def __repr__(self) -> str:
        return f"NewToken(token_id={self.token_id!r}, expires_ms={self.expires_ms})"


class UserApi:
    """Those of one gateway. Every method raises `UserNotFound` where there is no such user, and else as the client."""

    def __init__(self, call: Call) -> None:
        self._call = call

    def all(self) -> list[dict[str, Any]]:
        """All users: `user`, `type`, `status`, and `quotas` if the user has its own."""
        return self._call(routes.USERS.at(), None)["users"]

    def get(self, user: str) -> dict[str, Any]:
        """A user with its `quotas`, its `policies` and its `tokens`, of which no secret is said."""
        return self._call(routes.USER.at(user), None)

    def put(
        self,
        user: str,
        type_: str | None = None,
        status: str | None = None,
        quotas: Mapping[str, float | None] | None = None,
    ) -> dict[str, Any]:
        """Make a user, or change it; what isn't said stays, or is `normal` and `enabled`. `quotas`: `requests_per_s`,
        `bytes_per_s`, `connections`, `topics`, `queues`; 0: as much as there is, None: what the broker's settings
        say."""
        said = {"type": type_, "status": status, "quotas": quotas or None}
        body = {name: value for name, value in said.items() if value is not None}
        return self._call(routes.PUT_USER.at(user), body)

    def delete(self, user: str) -> None:
        """Delete a user with all it has."""
        self._call(routes.DELETE_USER.at(user), None)

    def tokens(self, user: str) -> list[dict[str, Any]]:
        """A user's tokens: `token_id`, `created_ms`, `expires_ms`."""
        return self._call(routes.TOKENS.at(user), None)["tokens"]

    def add_token(self, user: str, expires_ms: int | None = None) -> NewToken:
        """Make a token. `expires_ms`: until that time since the epoch; below 10^11: so long from now."""
        answer = self._call(routes.ADD_TOKEN.at(user), {"expires_ms": expires_ms})
        return NewToken(answer["token"], answer["token_id"], answer["expires_ms"])

    def let_in(self, user: str, token_id: str, secret_hash: str, expires_ms: int | None = None) -> None:
        """Let the user have a token that was made elsewhere: its id, and the SHA-256 of its secret in hex. The same
        again is fine."""
        body = {"token_id": token_id, "secret_hash": secret_hash, "expires_ms": expires_ms}
        self._call(routes.ADD_TOKEN.at(user), body)

    def delete_token(self, user: str, token_id: str) -> None:
        """Revoke a token. Raises `TokenNotFound`."""
        self._call(routes.DELETE_TOKEN.at(user, token_id), None)

    def policies(self, user: str) -> list[dict[str, Any]]:
        """A user's policies: `resource`, `actions`, `sources`, `decision`."""
        return self._call(routes.POLICIES.at(user), None)["policies"]

    def put_policies(self, user: str, policies: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Have these be all of the user's policies; as they are kept."""
        return self._call(routes.PUT_POLICIES.at(user), {"policies": list(policies)})["policies"]

    def token_required(self) -> bool:
        """Whether the broker asks everyone for a token (`auth.required`). One of an earlier version, which doesn't say,
        counts as if it did."""
        return bool(self._call(sql_routes.OWN_ACCESS.at(), None).get("token_required", True))

    def may(self, user: str, action: str, resource: str, source: str | None = None) -> tuple[bool, str]:
        """Whether the user may do that, from that address, and what says so."""
        body = {"user": user, "action": action, "resource": resource}
        answer = self._call(routes.ACCESS.at(), body if source is None else {**body, "source": source})
        return answer["allowed"], answer["by"]
