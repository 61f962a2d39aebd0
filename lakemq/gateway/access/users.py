"""Users, their policies and their tokens are changed by records in the log, one change after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import orjson

from lakemq.model.access import POLICIES_MAX, Policy, User, parse_user
from lakemq.model.errors import FlowControl, InvalidRequest, TokenNotFound, UserNotFound
from lakemq.model.names import ACCESS_TOPIC
from lakemq.settings import Auth
from lakemq.storage.disk.clock import Clock
from lakemq.storage.log.appends import RowsAppend
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.segment.rows import make_row
from lakemq.storage.state.access_state import (
    ADD_TOKEN,
    DELETE_TOKEN,
    DELETE_USER,
    PUT_POLICIES,
    PUT_USER,
    AccessState,
    Account,
    KeptToken,
    size_of,
)
from lakemq.storage.state.topics import Topic

EnsureTopic = Callable[[str], Awaitable[Topic]]
Record = tuple[str, dict[str, Any]]
"""A kind, and what is said, as `AccessState` reads it."""


class Users:
    """Those of one broker."""

    def __init__(self, log: CommitLog, ensure_topic: EnsureTopic, limits: Auth, clock: Clock) -> None:
        self._log = log
        self._ensure_topic = ensure_topic
        self._limits = limits
        self._clock = clock
        # What there is room for, and what is as it was, is seen before: so one after the other.
        self._changing = asyncio.Lock()

    @property
    def state(self) -> AccessState:
        """All users, as the log says."""
        return self._log.state.access

    def now_ms(self) -> int:
        """The time by which tokens are over."""
        return self._clock.now_ms()

    def find(self, name: str) -> Account:
        """The user with its tokens. Raises `UserNotFound`."""
        account = self.state.users.get(name)
        if account is None:
            raise UserNotFound(f"there is no user {name[:200]!r}")
        return account

    async def put(self, name: str, fields: Mapping[str, object]) -> tuple[User, bool]:
        """Make a user, or change it: `type`, `status`, `quotas`. What is left out, of quotas too, stays. Returns it,
        and whether it was made. Raises `InvalidRequest`, `FlowControl` for one too many, `StoreUnwritable`."""
        parse_user(name, fields)
        async with self._changing:
            account = self.state.users.get(name)
            if account is None and len(self.state.users) >= self._limits.users_max:
                raise FlowControl(
                    f"there are {len(self.state.users)} users already (auth.users_max): delete some that nobody needs,"
                    " by DELETE /v1/users/{user} or lakemq user delete"
                )
            before = account.user if account else User(name)
            old = {"type": before.type.value, "status": before.status.value}
            user = parse_user(name, {**old, **fields}, before.policies, before.quotas)
            if account is None or user != before:
                said = {"type": user.type.value, "status": user.status.value, "quotas": user.quotas.fields()}
                await self._append((PUT_USER, {"user": name, **said}))
            return user, account is None

    async def delete(self, name: str) -> None:
        """Delete a user with all it has. Raises `UserNotFound`, `StoreUnwritable`."""
        async with self._changing:
            self.find(name)
            await self._append((DELETE_USER, {"user": name}))

    async def put_policies(self, name: str, policies: Sequence[Policy]) -> None:
        """Have these be all policies of a user. Raises `UserNotFound`, `FlowControl`, `StoreUnwritable`."""
        if len(policies) > POLICIES_MAX:
            raise InvalidRequest(f"a user has {POLICIES_MAX} policies at most")
        async with self._changing:
            account = self.find(name)
            size = self.state.size - account.size + size_of(policies)
            if size > self._limits.policies_bytes_max and size > self.state.size:
                raise FlowControl("the policies of all users together are too many (auth.policies_bytes_max)")
            await self._append((PUT_POLICIES, {"user": name, "policies": [each.fields() for each in policies]}))

    async def add_token(self, name: str, token_id: str, secret_hash: str, expires_ms: int | None) -> None:
        """Let the user have a token. The same again changes when it is over. Tokens that are over give way to it.
        Raises `UserNotFound`, `InvalidRequest` when another has the id, `FlowControl`, `StoreUnwritable`."""
        async with self._changing:
            account, now_ms = self.find(name), self.now_ms()
            if not self.state.takes(name, token_id, secret_hash):
                raise InvalidRequest(f"there is another token with the id {token_id!r}")
            others = [each for each in account.tokens if each.id != token_id]
            lacking = len(others) + 1 - self._limits.user_tokens_max
            over = [each.id for each in others if each.expires_ms is not None and each.expires_ms <= now_ms]
            if lacking > len(over):
                raise FlowControl(
                    f"user {name} has {len(others)} tokens already (auth.user_tokens_max): delete one that nobody uses,"
                    " by DELETE /v1/users/{user}/tokens/{token_id} or lakemq user token delete"
                )
            going: list[Record] = [(DELETE_TOKEN, {"user": name, "id": each}) for each in over[: max(lacking, 0)]]
            token = KeptToken(token_id, secret_hash, now_ms, expires_ms)
            await self._append(*going, (ADD_TOKEN, {"user": name, **token._asdict()}))

    async def delete_token(self, name: str, token_id: str) -> None:
        """Delete a token: it is not valid any more. Raises `UserNotFound`, `TokenNotFound`, `StoreUnwritable`."""
        async with self._changing:
            if all(each.id != token_id for each in self.find(name).tokens):
                raise TokenNotFound(f"user {name} has no token {token_id[:100]!r}")
            await self._append((DELETE_TOKEN, {"user": name, "id": token_id}))

    async def _append(self, *records: Record) -> None:
        """Store the records in one frame; the state has them on return. Raises `StoreUnwritable`, nothing stored."""
        queue = (await self._ensure_topic(ACCESS_TOPIC)).queues[0]
        rows = [make_row(body=orjson.dumps(content), tag=kind) for kind, content in records]
        await self._log.append(RowsAppend(rows, [queue] * len(rows)))
