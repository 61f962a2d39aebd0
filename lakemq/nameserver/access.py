"""Who may change what a name server says: whoever has a token of its file. It keeps their hashes, in memory."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from os import stat_result
from pathlib import Path

from lakemq.contract.grammar import Found
from lakemq.contract.route import Route
from lakemq.model.errors import FlowControl, InvalidRequest, SettingsError, Unauthenticated
from lakemq.model.token import parse_bearer
from lakemq.web.asgi import Scope, client_of
from lakemq.web.failures import Failures
from lakemq.wire.registering import read_tokens

SETTING = "nameserver.token_file"

logger = logging.getLogger(__name__)


class Access:
    """That of one name server. As `lakemq.web.front.Admits`."""

    def __init__(self, path: Path | None, now_s: Callable[[], float]) -> None:
        """`path` None: everybody may. Raises `SettingsError` where the file has no tokens."""
        self._path = path
        self._now_s = now_s
        self._failures = Failures()
        self._facts = self._stat()
        self._known = () if path is None else _read(path)

    def admit(self, found: Found, scope: Scope) -> None:
        """Raise unless who asks may. Raises `Unauthenticated`, `FlowControl` after too many tries, `InvalidRequest`."""
        if self._path is None or found.route.rights.public:
            return
        said = [value for name, value in scope["headers"] if name == b"authorization"]
        if not said:
            raise Unauthenticated("this takes a token, `Authorization: Bearer lmq_...`: brokers have one")
        if len(said) > 1:
            raise InvalidRequest("there are two headers Authorization")
        if not self._is_valid(said[0]):
            if self._failures.note(client_of(scope), self._now_s()):
                raise FlowControl("too many tries with tokens that are not valid: wait a second before the next")
            raise Unauthenticated("this token is not valid")

    def _is_valid(self, said: bytes) -> bool:
        try:
            token = parse_bearer(said.decode("latin-1"))
        except Unauthenticated:
            return False
        # All are looked at, always.
        return any([(token.id == each_id) & token.is_of(each_hash) for each_id, each_hash in self._known])  # noqa: C419

    def admit_query(self, route: Route, query: Mapping[str, str], scope: Scope) -> None:
        """Nothing depends on it."""

    def look(self) -> None:
        """Take the tokens that the file has now, where it was changed. What can't be read changes nothing."""
        if self._path is None or (facts := self._stat()) == self._facts:
            return
        self._facts = facts
        try:
            self._known = _read(self._path)
        except SettingsError as error:
            logger.warning("the tokens stay as they were: %s", error.detail)
        else:
            logger.info("there are %d tokens now by which brokers may register", len(self._known))

    def _stat(self) -> tuple[int, ...] | None:
        try:
            return None if self._path is None else _facts(self._path.stat())
        except OSError:
            return None


def _facts(found: stat_result) -> tuple[int, ...]:
    return found.st_ino, found.st_size, found.st_mode, found.st_uid, found.st_mtime_ns, found.st_ctime_ns


def _read(path: Path) -> tuple[tuple[str, str], ...]:
    """The id and the hash of each."""
    return tuple([(each.id, each.secret_hash) for each in read_tokens(path, SETTING)])
