"""Who may change what a name server says: whoever has a token of its file. It keeps their hashes, in memory."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path

from lakemq.contract.grammar import Found
from lakemq.contract.route import Route
from lakemq.model.errors import FlowControl, Forbidden, InvalidRequest, SettingsError, Unauthenticated
from lakemq.model.token import Token, parse_bearer
from lakemq.web.asgi import Scope, client_of
from lakemq.web.failures import Failures
from lakemq.wire.file_facts import facts_of
from lakemq.wire.registering import Registering, read_tokens

SETTING = "nameserver.token_file"

logger = logging.getLogger(__name__)


class Access:
    """That of one name server. As `lakemq.web.front.Admits`."""

    def __init__(self, path: Path | None, now_s: Callable[[], float]) -> None:
        """`path` None: everybody may. Raises `SettingsError` where the file has no tokens."""
        self._path = path
        self._now_s = now_s
        self._failures = Failures()
        self._facts = None if path is None else facts_of(path)
        self._known = () if path is None else _read(path)

    def admit(self, found: Found, scope: Scope) -> None:
        """Raise unless who asks may: `Unauthenticated`, `FlowControl` after too many tries, `Forbidden` for another
        broker's name, or for what is of no broker where the token is for some alone, `InvalidRequest`."""
        if self._path is None or found.route.rights.public:
            return
        said = [value for name, value in scope["headers"] if name == b"authorization"]
        if not said:
            raise Unauthenticated("this takes a token, `Authorization: Bearer lmq_...`: brokers have one")
        if len(said) > 1:
            raise InvalidRequest("there are two headers Authorization")
        known = self._find(said[0])
        if not known:
            if self._failures.note(client_of(scope), self._now_s()):
                raise FlowControl("too many tries with tokens that are not valid: wait a second before the next")
            raise Unauthenticated("this token is not valid")
        broker = dict(zip(found.route.within, found.values, strict=True)).get("broker")
        # No broker's name is empty, so only a token for all of them speaks for that.
        if not any(each.speaks_for(broker or "") for each in known):
            raise Forbidden(f"this token is for brokers of {'some names alone' if broker is None else 'other names'}")

    def _find(self, said: bytes) -> list[Registering]:
        """What the file says of that token."""
        try:
            token = parse_bearer(said.decode("latin-1"))
        except Unauthenticated:
            return []
        # All are looked at, always.
        return [each for each, kept in self._known if (token.id == each.token.id) & token.is_of(kept)]

    def admit_query(self, route: Route, query: Mapping[str, str], scope: Scope) -> None:
        """Nothing depends on it."""

    def look(self) -> None:
        """Take the tokens that the file has now, where it was changed. What can't be read changes nothing."""
        if self._path is None or (facts := facts_of(self._path)) == self._facts:
            return
        self._facts = facts
        try:
            self._known = _read(self._path)
        except SettingsError as error:
            logger.warning("the tokens stay unchanged: %s", error.detail)
        else:
            logger.info("there are now %d tokens for the registration of brokers", len(self._known))


def _read(path: Path) -> tuple[tuple[Registering, str], ...]:
    """Each without its secret, of which the hash is kept."""
    found = read_tokens(path, SETTING)
    return tuple([(each._replace(token=Token(each.token.id, "")), each.token.secret_hash) for each in found])
