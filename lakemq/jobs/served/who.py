"""Who asks, and what that one may: by what each broker that the jobs follow says of the token.

The token goes to the brokers as it came, and is kept nowhere: what they said is, for seconds, by a hash of it. Where
one broker refuses, or doesn't answer, nothing is served; and what one doesn't allow isn't seen.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from lakemq.contract.sql_routes import ASKED_BY, OWN_ACCESS
from lakemq.jobs.errors import BrokerUnavailable
from lakemq.model.access import (
    ADMINISTRATOR,
    Action,
    Kind,
    Need,
    Resource,
    Status,
    User,
    UserType,
    parse_policy,
    parse_user,
)
from lakemq.model.errors import Busy, Forbidden, LakemqError, Unauthenticated
from lakemq.model.network import is_neighbour
from lakemq.model.sight import ANYBODY, Sight, sight_of
from lakemq.wire.connections import Connections, NoAnswer
from lakemq.wire.credentials import Credentials

KEPT_S = 2.0
"""So long what a broker said holds."""
KEPT_MAX = 256
ASK_S_MAX = 5.0
ANSWER_BYTES_MAX = 1024 * 1024

_Users = tuple[User | None, ...]


@dataclass(frozen=True)
class Asker:
    """Who asks, from that address; `users`: as each broker knows that one, None where nobody is known; `addresses`: of
    these brokers."""

    users: _Users
    source: str | None
    addresses: tuple[str, ...]

    @property
    def name(self) -> str:
        """Empty: nobody who is known."""
        return next((user.name for user in self.users if user is not None), "")

    @property
    def sights(self) -> list[Sight]:
        """What each broker lets it see."""
        return [ANYBODY if user is None else sight_of(user, self.source) for user in self.users]

    def check(self, tables: Iterable[str]) -> None:
        """Raises `Forbidden` unless it may ask for these tables; without any, for all of the lake."""
        for name in sorted(set(tables)) or ["*"]:
            need = Need((Action.SQL,), Resource(Kind.LAKE, name))
            for user in self.users:
                if user is not None and not (verdict := user.decide(need, self.source)).allowed:
                    raise Forbidden(f"user {user.name} may not: it takes {need}, and {verdict.by}")

    def may(self, table: str) -> bool:
        """Whether it may ask for that table."""
        need = Need((Action.SQL,), Resource(Kind.LAKE, table))
        return all(user is None or user.may(need, self.source) for user in self.users)


class _Aside(Credentials):
    """The jobs' own token, where nothing is asked by it: they must never ask as the jobs, who may do all. By it a
    broker knows that the connection isn't the user's."""

    def headers(self, address: str) -> Mapping[str, str]:
        own = super().headers(address)
        return {ASKED_BY: own["Authorization"]} if own else own

    def refused(self, address: str, sent: Mapping[str, str], content: bytes) -> str:
        del address, sent, content  # it is the user's that was
        return ""


class Who:
    """Asks brokers. `addresses` says which there are, with commas between. For any thread."""

    def __init__(self, addresses: Callable[[], str], clock_s: Callable[[], float] = time.monotonic) -> None:
        self._addresses = addresses
        self._clock_s = clock_s
        self._key = secrets.token_bytes(32)
        self._kept: OrderedDict[tuple[bytes, str], tuple[float, _Users]] = OrderedDict()
        self._connections: dict[str, Connections] = {}
        self._lock = Lock()

    def asks(self, authorization: str | None, source: str | None, forwarded: bool = False) -> Asker:
        """Who sends that header from that address. `forwarded`: he says that he asks for somebody else, who may be
        anywhere. Raises `Unauthenticated`, `Forbidden`, `BrokerUnavailable`."""
        if not authorization and (forwarded or not is_neighbour(source)):
            raise Unauthenticated(
                "from another machine, or through a proxy, this takes a token, `Authorization: Bearer lmq_...`"
            )
        addresses = self._addresses()
        brokers = tuple(each for each in addresses.split(",") if each)
        said = b"" if authorization is None else b"said " + authorization.encode()
        hashed = hashlib.blake2b(said, digest_size=16, key=self._key).digest()
        now_s = self._clock_s()
        with self._lock:
            found = self._kept.get((hashed, addresses))
        if found is not None and 0 <= now_s - found[0] < KEPT_S:
            return Asker(found[1], source, brokers)
        users = tuple(self._ask(address, authorization) for address in brokers)
        if not users:
            raise Busy("the jobs know no broker yet, and only a broker can identify the caller")
        with self._lock:
            self._kept[hashed, addresses] = now_s, users
            self._kept.move_to_end((hashed, addresses))
            while len(self._kept) > KEPT_MAX:
                self._kept.popitem(last=False)
        return Asker(users, source, brokers)

    def close(self) -> None:
        """Closes the connections."""
        for each in self._connections.values():
            each.close()

    def _ask(self, address: str, authorization: str | None) -> User | None:
        with self._lock:
            connections = self._connections.setdefault(address, Connections(address, _Aside()))
        headers = {} if authorization is None else {"Authorization": authorization}
        try:
            answer = connections.ask(OWN_ACCESS.at(), None, None, headers, ASK_S_MAX, answer_bytes_max=ANSWER_BYTES_MAX)
        except NoAnswer:
            raise BrokerUnavailable("a broker doesn't answer, and only brokers know who may see what") from None
        refusal = answer.error()
        if isinstance(refusal, Unauthenticated):
            raise Unauthenticated(refusal.detail)  # without the place of this machine's token
        if refusal is not None:
            raise refusal if isinstance(refusal, Forbidden) or answer.status == 429 else _unclear()
        try:
            return _user(json.loads(answer.body))
        except (ValueError, KeyError, TypeError, RecursionError, LakemqError):
            raise _unclear() from None


def _unclear() -> BrokerUnavailable:
    return BrokerUnavailable("a broker did not return rights: it may be an older version")


def _user(said: dict[str, Any]) -> User | None:
    if said["user"] is None:
        return None
    policies = [parse_policy(each) for each in said["policies"]]
    if said["user"] == ADMINISTRATOR:
        return User(ADMINISTRATOR, UserType(said["type"]), Status(said["status"]))
    return parse_user(said["user"], said, policies)
