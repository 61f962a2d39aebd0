"""Who asks is known by a token; whether they may, by the policies in the log. Every request passes here, whoever serves
it, and mostly costs two look-ups: what was found once holds until a policy changes or the token is over."""

from __future__ import annotations

import hashlib
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from lakemq.contract.grammar import Found
from lakemq.contract.route import Route
from lakemq.contract.sql_routes import ASKED_BY, OWN_ACCESS, USAGE
from lakemq.gateway.access.admin_token import NAME, open_admin_token
from lakemq.gateway.access.audit import Audit, Entry
from lakemq.gateway.access.caller import SCOPE, Anonymous, Caller, Known, Seen
from lakemq.gateway.access.quotas import QuotaKeeper, Usage
from lakemq.model.access import ADMINISTRATOR, User, UserType
from lakemq.model.errors import FlowControl, Forbidden, InvalidRequest, LakemqError, OverQuota, Unauthenticated
from lakemq.model.forwarded import is_forwarded
from lakemq.model.network import is_neighbour
from lakemq.model.quota import Quota
from lakemq.model.token import Token, parse_bearer
from lakemq.storage.disk.clock import Clock
from lakemq.storage.disk.files import Files
from lakemq.web.asgi import Scope, client_of
from lakemq.web.failures import Failures
from lakemq.web.problems import Headers
from lakemq.web.request_id import given_id, request_id_of
from lakemq.wire.registering import read_tokens

_ASKED_BY = ASKED_BY.lower().encode()
CALLERS_MAX = 4_096
"""So many pairs of a token and an address are known without looking anything up, and so many addresses without one."""


class Users(Protocol):
    """Those that the log knows."""

    @property
    def generation(self) -> int:
        """Moves with every change of users, policies and tokens."""
        ...

    def find_token(self, token_id: str) -> tuple[User, str, int | None] | None:
        """Whose it is, the hash of its secret, and when it is over, in ms; None: there is none of that id."""
        ...


class Admission(NamedTuple):
    """That a request was allowed; `caller` None: to everybody. `usage`: what its user takes; None: it has no quota."""

    access: Access
    caller: Caller | None
    generation: int
    usage: Usage | None

    def holds(self) -> bool:
        """Whether it would be now."""
        return self.caller is None or self.access.holds(self.caller, self.generation)


class Access:
    """That of one broker. `users` are those of the log of the moment."""

    def __init__(
        self,
        required: bool,
        users: Callable[[], Users],
        clock: Clock,
        audit: Audit | None = None,
        quotas: QuotaKeeper | None = None,
    ) -> None:
        """`audit` None: nothing is written down; `quotas` None: nobody has any."""
        self._required = required
        self._quotas = quotas
        self._audit = audit
        self._users = users
        self._clock = clock
        self._failures = Failures()
        self.seen = Seen()
        self._administrator: Token | None = None
        self._token_file = ""
        self._nobodies: OrderedDict[tuple[str | None, bool], Anonymous] = OrderedDict()
        self._callers: OrderedDict[tuple[bytes, str | None], Caller] = OrderedDict()
        self._generation = -1
        self._key = secrets.token_bytes(32)

    def open(self, files: Files, directory: Path, given: Path | None = None) -> None:
        """Have the administrator's token: the first of the file that is `given`, else of the folder's own. Raises
        `BadAdminToken`, `SettingsError`, `OSError`."""
        if given is None:
            self._administrator = open_admin_token(files, directory)
        else:
            self._administrator = read_tokens(given, "auth.admin_token_file")[0].token
        self._token_file = str((given or directory / NAME).absolute())

    # Requests --------------------------------------------------------------------------------

    def admit(self, found: Found, scope: Scope) -> None:
        """Raise unless who asks is known, where that is needed, and may ask for what the path says; handlers find him
        in the scope. What the user takes by it is counted. Raises `Unauthenticated`, `Forbidden`, `FlowControl`,
        `InvalidRequest`, `OverQuota`."""
        address = client_of(scope)
        try:
            caller = scope[SCOPE] = self._caller(scope["headers"], address)
        except LakemqError as error:
            scope[SCOPE] = self._nobody(scope["headers"], address)
            if found.route.rights.public:
                return  # a probe is answered, whichever token it has
            self.refused(scope[SCOPE], _shown(found.route, scope), error, request_id_of(scope))
            raise
        try:
            if self._quotas is not None and not found.route.rights.public:
                seated = found.route is not OWN_ACCESS or not self._is_by_jobs(scope["headers"], address)
                self._quotas.admit(caller.usage, scope, seated)
            caller.admit(found.route, found.values)
        except (Unauthenticated, Forbidden, OverQuota) as error:
            self.refused(caller, _shown(found.route, scope), error, request_id_of(scope))
            raise

    def admit_query(self, route: Route, query: Mapping[str, str], scope: Scope) -> Awaitable[None] | None:
        """`admit`, for what the query says. What it returns is to be waited for: what changes something is written down
        before it is done. That raises `Busy`, `StoreUnwritable`."""
        caller: Caller = scope[SCOPE]
        if route.query_rights:
            try:
                caller.admit_query(route, query)
            except (Unauthenticated, Forbidden) as error:
                self.refused(caller, _shown(route, scope), error, request_id_of(scope))
                raise
        if not route.audited or self._audit is None:
            return None
        entry = Entry(caller.name, caller.source, _shown(route, scope), "", given_id(scope["headers"]))
        return self._audit.urgent(entry) if route.urgent else self._audit.changes(entry, caller.trusted)

    def refused(self, caller: Caller, what: str, error: LakemqError, request_id: str = "") -> None:
        """As `Notes`."""
        if self._audit is not None:
            self._audit.refused(Entry(caller.name, caller.source, what, error.detail, request_id))

    def over_quota(self, caller: Caller, what: str, error: OverQuota) -> None:
        """As `Notes`."""
        if self._quotas is not None:
            self._quotas.refused[Quota(error.quota)] += 1
        self.refused(caller, what, error)

    async def changes(self, caller: Caller, what: str) -> None:
        """As `Notes`."""
        if self._audit is not None:
            await self._audit.changes(Entry(caller.name, caller.source, what, ""), caller.trusted)

    def admit_quickly(self, found: Found, headers: Headers, address: str | None) -> Admission | None:
        """That such a request is allowed; None: it isn't, or may be not."""
        try:
            caller = self._caller(headers, address, counts=False)
            caller.admit(found.route, found.values)
        except LakemqError:
            return None  # the long way says why, and counts it
        return Admission(self, caller if caller.name else None, self._generation, caller.usage)

    def holds(self, caller: Caller, generation: int) -> bool:
        """Whether what was known of the caller then still is so."""
        return generation == self._users().generation and not self._is_over(caller.again_ms)

    # Who asks --------------------------------------------------------------------------------

    def _caller(self, headers: Headers, address: str | None, counts: bool = True) -> Caller:
        """`counts`: a token that is none is one more try."""
        said = None
        for name, value in headers:
            if name == b"authorization":
                if said is not None:
                    raise InvalidRequest("there are two headers Authorization")
                said = value
        if said is None:
            return self._nobody(headers, address)
        if self._generation != (now := self._users().generation):
            self._generation = now
            self._callers.clear()
            self.seen.clear()
        # Not the token itself: of its secret nothing is kept in memory for longer than its request.
        key = hashlib.blake2b(said, digest_size=16, key=self._key).digest(), address
        caller = self._callers.get(key)
        if caller is None:
            caller = self._callers[key] = self._find(said, headers, address, counts)
            if len(self._callers) > CALLERS_MAX:
                self._callers.popitem(last=False)
        if self._is_over(caller.again_ms):
            if self._is_over(caller.expires_ms):
                raise self._stranger(f"the token of user {caller.name} is over", headers, address, counts)
            self._tell(caller)
        return caller

    def _is_by_jobs(self, headers: Headers, address: str | None) -> bool:
        """Whether the jobs ask for a user who asks them: the connection is theirs. They say what that one takes, so
        they are who may do so."""
        said = [(b"authorization", value) for name, value in headers if name == _ASKED_BY]
        try:
            caller = self._caller(said, address)
            caller.admit(USAGE, (ADMINISTRATOR,))
        except LakemqError:
            return False
        return True

    def _find(self, said: bytes, headers: Headers, address: str | None, counts: bool) -> Caller:
        try:
            token = parse_bearer(said.decode("latin-1"))
        except Unauthenticated as error:
            raise self._stranger(error.detail, headers, address, counts) from None
        administrator = self._administrator
        if administrator is not None and token.id == administrator.id and token.is_of(administrator.secret_hash):
            return self._known(User(ADMINISTRATOR, UserType.SUPER), address, None)
        found = self._users().find_token(token.id)
        if found is None or not token.is_of(found[1]):
            raise self._stranger("this token is not valid", headers, address, counts)
        user, _, expires_ms = found
        return self._known(user, address, expires_ms)

    def _known(self, user: User, address: str | None, expires_ms: int | None) -> Caller:
        known = Known(user, address, self, expires_ms, None if self._quotas is None else self._quotas.of(user))
        if user.type is UserType.SUPER:
            self._tell(known)
        return known

    def _tell(self, caller: Caller) -> None:
        """An administrator's token is used: once an hour that is told, however long the caller is known."""
        if self._audit is None:
            return
        again_ms = self._audit.logged_in(Entry(caller.name, caller.source, "", ""))
        caller.again_ms = again_ms if caller.expires_ms is None else min(again_ms, caller.expires_ms)

    def _stranger(self, detail: str, headers: Headers, address: str | None, counts: bool) -> LakemqError:
        if counts and self._failures.note(address, self._clock.now_ms() / 1000):
            return FlowControl("too many tries with tokens that are not valid: wait a second before the next")
        return Unauthenticated(detail, self._nobody(headers, address).token_file)

    def _nobody(self, headers: Headers, address: str | None) -> Anonymous:
        """Whoever asks from there without a token. A proxy on this machine is told nothing that it would hand on."""
        key = address, is_neighbour(address) and not is_forwarded(headers)
        found = self._nobodies.get(key)
        if found is None:
            token_file = self._token_file if key[1] else ""
            found = self._nobodies[key] = Anonymous(address, self, self._required, token_file)
            if len(self._nobodies) > CALLERS_MAX:
                self._nobodies.popitem(last=False)
        return found

    def _is_over(self, expires_ms: int | None) -> bool:
        return expires_ms is not None and expires_ms <= self._clock.now_ms()


def _shown(route: Route, scope: Scope) -> str:
    """Names that rights are by; ids may be secrets."""
    is_named = route.audited or any(right.of in route.within for right in route.path_rights)
    return f"{route.method} {scope['path'] if is_named else route.path}"
