"""Users, their policies and the hashes of their tokens, as the log's records make them.

Every change is a record, a JSON message in `ACCESS_TOPIC`, its kind the tag. `AccessState.apply` is the one way in,
while serving and while recovering. Each record says itself under which condition it counts: policies and tokens are of
a user that is there, a token's id is of one token. What can't be understood allows nothing: a record without sense
changes nothing, policies of which one has none are no policies, a user of no known type, status or quotas is a disabled
one. A record from before there were quotas leaves them as they are; quotas of a kind that isn't known hold nobody up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, NamedTuple, cast

import orjson

from lakemq.model.access import Policy, Status, User, UserType, check_user_name, parse_policy, parse_user
from lakemq.model.errors import InvalidRequest
from lakemq.model.names import ACCESS_TOPIC
from lakemq.model.quota import UNSAID
from lakemq.storage.segment.content import Content
from lakemq.storage.segment.frame import Meta

PUT_USER, DELETE_USER, PUT_POLICIES, ADD_TOKEN, DELETE_TOKEN = "user", "delete", "policies", "token", "delete_token"
"""The records' tags."""

_HASH = re.compile(r"[0-9a-f]{64}\Z")
_generations = count(1)


class KeptToken(NamedTuple):
    """What is kept of a token. `expires_ms`: valid before that time since the epoch; None: always."""

    id: str
    secret_hash: str
    created_ms: int
    expires_ms: int | None


class Account(NamedTuple):
    """A user with its tokens, the oldest first. `size`: bytes of its policies, as JSON."""

    user: User
    tokens: tuple[KeptToken, ...] = ()
    size: int = 0


Found = tuple[User, str, "int | None"]
"""Whose token it is, the hash of its secret, and when it expires."""


class AccessState:
    """All users of a log. What it holds of a user is exchanged and never changed: who has it in hand may keep it.

    `generation` moves with whatever changes, and is never one that another state of this process had. `size`:
    bytes of all policies."""

    def __init__(self) -> None:
        self.users: dict[str, Account] = {}
        self.generation = next(_generations)
        self.size = 0
        self._tokens: dict[str, Found] = {}

    def find_token(self, token_id: str) -> Found | None:
        """The token of that id."""
        return self._tokens.get(token_id)

    def apply(self, meta: Meta, content: Content) -> None:
        """Carry out the records of access among the frame's rows."""
        for run in meta.runs:
            if run.topic == ACCESS_TOPIC:
                tags, bodies = (content.values(name, run.row, run.count) for name in ("tag", "body"))
                for tag, body in zip(tags, bodies, strict=True):
                    self._apply(tag, _parse_object(body))

    def _apply(self, tag: object, record: dict[str, Any]) -> None:
        name = _user_of(record)
        if name is None:
            return
        account = self.users.get(name)
        if tag == PUT_USER:
            before = account.user if account else User(name)
            tokens, size = (account.tokens, account.size) if account else ((), 0)
            self._put(Account(_make_user(before, record), tokens, size))
        elif account is None:
            return
        elif tag == DELETE_USER:
            self._remove(account)
        elif tag == PUT_POLICIES:
            self._put(_with_policies(account, record.get("policies")))
        elif tag == ADD_TOKEN:
            token = _parse_token(record)
            if token is not None and self.takes(name, token.id, token.secret_hash):
                others = [each for each in account.tokens if each.id != token.id]
                self._put(account._replace(tokens=(*others, token)))
        elif tag == DELETE_TOKEN:
            kept = tuple(each for each in account.tokens if each.id != record.get("id"))
            self._put(account._replace(tokens=kept))

    def takes(self, name: str, token_id: str, secret_hash: str) -> bool:
        """Whether the user may have such a token: no other one has its id."""
        found = self._tokens.get(token_id)
        return found is None or (found[0].name == name and found[1] == secret_hash)

    def _put(self, account: Account) -> None:
        user = account.user
        before = self.users.get(user.name)
        if before is not None:
            self._forget(before)
        self.users[user.name] = account
        self.size += account.size
        for token in account.tokens:
            self._tokens[token.id] = user, token.secret_hash, token.expires_ms
        self.generation = next(_generations)

    def _remove(self, account: Account) -> None:
        self._forget(account)
        del self.users[account.user.name]
        self.generation = next(_generations)

    def _forget(self, account: Account) -> None:
        self.size -= account.size
        for token in account.tokens:
            del self._tokens[token.id]

    def freeze(self) -> Callable[[], dict[str, Any]]:
        """What makes the `dump` of the state as it is now, in any thread, whatever happens to it meanwhile."""
        users = self.users.copy()
        return lambda: {name: _dump(account) for name, account in users.items()}

    def dump(self) -> dict[str, Any]:
        """All of it as JSON values, for a state frame or a snapshot."""
        return self.freeze()()

    def restore(self, dumped: dict[str, Any]) -> None:
        """Become what `dump` said. A log from before there were users has none."""
        self.users, self._tokens, self.size = {}, {}, 0
        for name, fields in dumped.items():
            tokens = tuple(KeptToken(*each) for each in fields["tokens"])
            account = _with_policies(Account(_make_user(User(name), fields), tokens), fields["policies"])
            self._put(account)
        self.generation = next(_generations)


def size_of(policies: Sequence[Policy]) -> int:
    """Bytes of policies, as JSON."""
    return sum([len(orjson.dumps(each.fields())) for each in policies])


def _user_of(record: dict[str, Any]) -> str | None:
    name = record.get("user")
    try:
        return check_user_name(name) if isinstance(name, str) else None
    except InvalidRequest:
        return None


def _parse_object(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _make_user(before: User, fields: dict[str, Any]) -> User:
    try:
        return parse_user(before.name, fields, before.policies, before.quotas)
    except InvalidRequest:
        return replace(before, type=UserType.NORMAL, status=Status.DISABLED)


def _with_policies(account: Account, listed: object) -> Account:
    """With those policies; with none where one of them says nothing: it may be one that denies."""
    try:
        policies = tuple(map(parse_policy, cast("list[object]", listed) if isinstance(listed, list) else []))
    except InvalidRequest:
        policies = ()
    return account._replace(user=replace(account.user, policies=policies), size=size_of(policies))


def _parse_token(record: dict[str, Any]) -> KeptToken | None:
    token_id, secret_hash = record.get("id"), record.get("secret_hash")
    created_ms, expires_ms = record.get("created_ms"), record.get("expires_ms", False)
    if not (isinstance(token_id, str) and token_id and isinstance(secret_hash, str) and _HASH.match(secret_hash)):
        return None
    if not isinstance(created_ms, int) or isinstance(expires_ms, bool) or not isinstance(expires_ms, int | None):
        return None
    return KeptToken(token_id, secret_hash, created_ms, expires_ms)


def _dump(account: Account) -> dict[str, Any]:
    user = account.user
    quotas = {} if user.quotas == UNSAID else {"quotas": user.quotas.fields()}
    return {
        "type": user.type.value,
        "status": user.status.value,
        "policies": [each.fields() for each in user.policies],
        "tokens": [list(each) for each in account.tokens],
        **quotas,
    }
