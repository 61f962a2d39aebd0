"""Who asks, as far as a request says it, and what that one may."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from lakemq.contract.right import Right
from lakemq.contract.route import Route
from lakemq.gateway.access.quotas import Usage
from lakemq.model.access import Action, Need, Status, User, UserType, need_of_topic
from lakemq.model.errors import Forbidden, LakemqError, OverQuota, Unauthenticated
from lakemq.model.quota import Made
from lakemq.web.asgi import Scope
from lakemq.web.request_id import CALLER

SEEN_MAX = 10_000
SEEN_CHARACTERS_MAX = 400
"""Longer names are nothing's: whoever asks for them is looked at each time."""
SCOPE = CALLER
"""Where a request's scope has it."""


Allowed = tuple["Caller", "Route | tuple[Right, ...]", Sequence["str | None"]]
"""Who, what, and the names in it: of a route, or of rights that are by a query. Neither can be taken for the other,
whatever the names are."""


class Seen:
    """What was allowed, of all callers together: so much, and then all of it is found again. Names are of a client's
    choice, so what they take is bounded."""

    def __init__(self) -> None:
        self._keys: set[Allowed] = set()

    def __contains__(self, key: Allowed) -> bool:
        return key in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def add(self, key: Allowed) -> None:
        """It was allowed."""
        if sum([len(each) for each in key[2] if each is not None]) > SEEN_CHARACTERS_MAX:
            return
        if len(self._keys) >= SEEN_MAX:
            self._keys.clear()
        self._keys.add(key)

    def clear(self) -> None:
        """Nothing holds any more."""
        self._keys.clear()


class Notes(Protocol):
    """Writes down who did what, and knows what was allowed before."""

    seen: Seen

    def refused(self, caller: Caller, what: str, error: LakemqError) -> None:
        """Somebody may not."""
        ...

    def over_quota(self, caller: Caller, what: str, error: OverQuota) -> None:
        """Somebody may not, as it has so much already."""
        ...

    async def changes(self, caller: Caller, what: str) -> None:
        """Somebody may, and is about to, which is written down on return. Raises `Busy`, `StoreUnwritable`."""
        ...


class Caller(ABC):
    """One who asks from one address. What was allowed once is not looked at again: a caller is of one generation of
    the policies, and whoever keeps one asks whether that is still the one (`Access.holds`)."""

    user: User | None = None
    """None: nobody who is known."""

    def __init__(self, name: str, source: str | None, notes: Notes, expires_ms: int | None = None) -> None:
        """`source`: the address. `expires_ms`: when its token is over."""
        self.name = name
        self.source = source
        self._notes = notes
        self._seen = notes.seen
        self.expires_ms = expires_ms
        self.again_ms = expires_ms
        """When it is to be looked at again: its token is over then, or it has used it for so long that this is told."""
        self.usage: Usage | None = None
        """What its user takes; None: it has no quota."""

    @abstractmethod
    def refusal(self, need: Need, said: str = "") -> LakemqError | None:
        """Why it may not; None: it may. `said`: as what the need is told, where its own name is not to be."""

    @property
    def trusted(self) -> bool:
        """Whether it may do all there is."""
        return False

    @abstractmethod
    def stranger(self, route: Route) -> LakemqError | None:
        """Why nobody of whom no more is known may ask for that; None: he may."""

    def check(self, need: Need, of: str = "") -> None:
        """Raise `Forbidden` or `Unauthenticated` unless it may: of what a handler finds in a body, or by an id.

        `of`: what only an id led to, such as "the message's topic". Ids can be counted through, so it isn't named."""
        if not self.may(need) and (refusal := self.refusal(need, of and need.on(of))) is not None:
            self._notes.refused(self, str(need), refusal)
            raise refusal

    async def changes(self, what: str) -> None:
        """It is about to change something, as a handler has found it may. Raises `Busy`, `StoreUnwritable`: then it is
        not to be done, as it can't be written down."""
        await self._notes.changes(self, what)

    def check_room(self, topic: str, made: Callable[[], Made]) -> None:
        """Raise `OverQuota` unless it may have made so many topics and queues, with this one."""
        if self.usage is not None and (refusal := self.usage.no_room(made)) is not None:
            self._notes.over_quota(self, str(need_of_topic((Action.CREATE,), topic)), refusal)
            raise refusal

    @abstractmethod
    def may(self, need: Need) -> bool:
        """Whether it may."""

    def admit(self, route: Route, values: Sequence[str]) -> None:
        """Raise unless it may ask for that, as far as the path says what it asks for. `values`: of the names in it."""
        key: Allowed = (self, route, values if route.path_rights else ())
        if key not in self._seen:
            if not route.rights.public and (refusal := self.stranger(route)) is not None:
                raise refusal
            self._check_all(route.path_rights, dict(zip(route.within, values, strict=True)))
            self._seen.add(key)

    def admit_query(self, route: Route, query: Mapping[str, str]) -> None:
        """`admit`, as far as the query says it."""
        rights = route.query_rights
        key: Allowed = (self, rights, tuple([query.get(right.of) for right in rights]))
        if key not in self._seen:
            self._check_all(rights, query)
            self._seen.add(key)

    def _check_all(self, rights: Sequence[Right], fields: Mapping[str, str]) -> None:
        for right in rights:
            need = right.need(fields)
            if need is not None and (refusal := self.refusal(need)) is not None:
                raise refusal


class Known(Caller):
    """A user, by a token."""

    def __init__(
        self, user: User, source: str | None, notes: Notes, expires_ms: int | None, usage: Usage | None = None
    ) -> None:
        super().__init__(user.name, source, notes, expires_ms)
        self.user = self._user = user
        self.usage = usage

    @property
    def trusted(self) -> bool:
        return self._user.type is UserType.SUPER

    def may(self, need: Need) -> bool:
        return self._user.may(need, self.source)

    def refusal(self, need: Need, said: str = "") -> LakemqError | None:
        verdict = self._user.decide(need, self.source)
        if verdict.allowed:
            return None
        if said:
            return Forbidden(f"user {self.name} may not: it takes {said}")
        return Forbidden(f"user {self.name} may not: it takes {need}, and {_why(verdict.by)}")

    def stranger(self, route: Route) -> LakemqError | None:
        is_known = self._user.status is Status.ENABLED
        return None if is_known else Forbidden(f"user {self.name} is disabled")


class Anonymous(Caller):
    """Whoever sends no token: may do all that isn't guarded, or nothing where `required` says so. `token_file`: where
    this machine's administrator has one, if the answer goes there."""

    def __init__(self, source: str | None, notes: Notes, required: bool, token_file: str) -> None:
        super().__init__("", source, notes)
        self._required = required
        self.token_file = token_file

    def may(self, need: Need) -> bool:
        return not (self._required or need.guarded)

    def refusal(self, need: Need, said: str = "") -> LakemqError | None:
        return self._who_is_that(said or str(need)) if self._required or need.guarded else None

    def stranger(self, route: Route) -> LakemqError | None:
        return self._who_is_that(f"{route.method} {route.path}") if self._required else None

    def _who_is_that(self, what: str) -> Unauthenticated:
        detail = f"this needs a token, `Authorization: Bearer lmq_...`, of a user who may: {what}"
        return Unauthenticated(detail, self.token_file)


def caller_of(scope: Scope) -> Caller:
    """Who asks: every request that is served has been seen by `Access.admit`."""
    return scope[SCOPE]


def _why(by: str) -> str:
    return by if by.startswith(("no policy", "only super", "user ")) else f"a policy says: {by}"
