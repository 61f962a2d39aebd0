"""Which token a client sends, and where.

A token is given by the program; else it is that of the environment, `LAKEMQ_TOKEN` or the file that
`LAKEMQ_TOKEN_FILE` names; else the administrator's, where it is found on this machine. One that was given or is the
environment's goes to each gateway that the client asks, so to a leader that a gateway names: who says so has been sent
the token already. One that was found belongs to its address. A process that lakemq started knows its file beforehand
(`FOUND_TOKENS`); others learn it when a gateway refuses a request without a token. Name servers are shown none of them.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Mapping
from errno import EACCES
from pathlib import Path
from typing import Any, cast

from lakemq.model.environment import FOUND_TOKENS, TOKEN, TOKEN_FILE
from lakemq.model.errors import InvalidRequest, SettingsError, Unauthenticated
from lakemq.model.names import speaks_tls, to_url
from lakemq.model.token import TOKEN_CHARACTERS_MAX, parse_token
from lakemq.wire.found_token import PROC_NET, NotFound, check_listener, find_token, how_to_get_on, is_loopback

UNAUTHENTICATED = 401
ADDRESSES_MAX = 64
"""Of this machine, that a token was found for."""
LOOKED_AT_MAX = 1_024
"""Of these it is known how long it was looked who listens: for longer than their tokens, which another thread may be
about to send."""

logger = logging.getLogger("lakemq.client")

Headers = Mapping[str, str]
_NONE: Headers = {}
_said_plain: set[str] = set()


class Stranger(OSError):
    """At an address where a token was found another user listens now."""


class Credentials:
    """A client's. For any thread. Pickled, it has the token that was given and no other: where it is used it looks
    anew into the environment. `net`: the folder where the kernel says who listens.

    Raises `InvalidRequest` for a token that is none, and `SettingsError` where the environment's is none; neither
    shows it.
    """

    def __init__(self, token: str | None = None, *, net: Path = PROC_NET) -> None:
        self._net = net
        self._given = None if token is None else _header(token, "token", InvalidRequest)
        self._source = "the token that was given"
        self._file = ""
        self.files: dict[str, str] = {}
        """Of this machine's administrator, by address: known beforehand, or named by a gateway, with a token in it."""
        self._found: dict[str, Headers] = {}
        self._found_s: dict[str, float] = {}
        self._headers: Headers = _NONE if self._given is None else self._given
        if self._given is None:
            self._look()

    def _look(self) -> None:
        if text := os.environ.get(TOKEN):
            self._source, self._headers = TOKEN, _header(text, TOKEN, SettingsError)
        elif file := os.environ.get(TOKEN_FILE):
            self._source, self._file, self._headers = f"{TOKEN_FILE}={file}", file, _read(file)
        else:
            self.files = _known_files(os.environ.get(FOUND_TOKENS, ""))

    def __repr__(self) -> str:
        return f"Credentials({self._source if self._headers else 'none'})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Credentials, (None if self._given is None else self._given["Authorization"].removeprefix("Bearer "),))

    def headers(self, address: str) -> Headers:
        """Those that a request to that address has; none, if there is no token for it. To be asked before a connection
        is chosen: a token that is found now goes on no older one."""
        if not self._headers:
            found = self._found.get(address)
            return self._find_in_known(address) if found is None else found
        if not speaks_tls(address) and address not in _said_plain:
            _say_plain(address)
        return self._headers

    def _find_in_known(self, address: str) -> Headers:
        file = self.files.get(address)
        if file is None:
            return _NONE
        try:
            found = _bearer(find_token(address, file, self._net).text)
        except NotFound:
            self.files.pop(address, None)  # the gateway's refusal names another file, or says how to continue
            return _NONE
        self._keep(address, found)
        return found

    def refused(self, address: str, sent: Headers, content: bytes) -> str | None:
        """A request with these headers was answered with 401 and that body. None: it is to be sent once more, with
        the headers that there are now; else how to get on, for people."""
        if self._file:
            now = _read(self._file)
            if now != sent:  # it was changed since: tokens run out, and files are written anew
                self._headers = now
                return None
        if self._headers:
            return f"(it is {self._source})"
        known = self._found.get(address, _NONE)
        if known != sent:
            return None  # another thread has found it meanwhile
        self._found.pop(address, None)
        token_file = _token_file(content)
        if not token_file:
            return f"({how_to_get_on('', '')})"
        try:
            found = _bearer(find_token(address, token_file, self._net).text)
        except NotFound as error:
            self.files.pop(address, None)
            return f"({how_to_get_on(token_file, str(error))})"
        if found == sent:
            return f"({how_to_get_on(token_file, 'it is refused too')})"
        self._keep(address, found)
        while len(self.files) >= ADDRESSES_MAX:
            self.files.pop(next(iter(self.files)), None)
        self.files[address] = token_file
        return None

    def check(self, address: str) -> None:
        """Before a new connection to there. A gateway that ends leaves its port to whoever wants it: raises `Stranger`
        where a token was found, and another user listens now."""
        if address not in self._found_s:
            return
        try:
            check_listener(address, self._net)
        except NotFound as error:
            self._found.pop(address, None)
            self.files.pop(address, None)
            raise Stranger(EACCES, f"the token that was found isn't sent: {error}") from None

    def _keep(self, address: str, found: Headers) -> None:
        while len(self._found) >= ADDRESSES_MAX:
            self._found.pop(next(iter(self._found)), None)
        self._found_s.pop(address, None)
        while len(self._found_s) >= LOOKED_AT_MAX:
            self._found_s.pop(next(iter(self._found_s)), None)
        self._found_s[address] = time.monotonic()
        self._found[address] = found

    def may_have(self, address: str, opened_s: float) -> bool:
        """Whether a connection that was opened then (monotonic) may have the token: not one from before it was looked
        who listens there, as another may have taken that one."""
        return opened_s > self._found_s.get(address, -1.0)


class _Nobody(Credentials):
    """Of who asks what is no gateway: it is sent nothing, and nothing is looked for."""

    def __init__(self) -> None:
        super().__init__()
        self._headers = _NONE

    def _look(self) -> None:
        pass

    def headers(self, address: str) -> Headers:
        del address
        return _NONE

    def __reduce__(self) -> tuple[Any, ...]:
        return (_Nobody, ())

    def refused(self, address: str, sent: Headers, content: bytes) -> str | None:
        del address, sent, content
        return ""


NOBODY = _Nobody()


def files_as_environment(files: Mapping[str, str]) -> dict[str, str]:
    """By which processes that this one starts know these files of administrators' tokens, by address."""
    return {FOUND_TOKENS: json.dumps(dict(files))} if files else {}


def _known_files(text: str) -> dict[str, str]:
    """Raises `SettingsError`."""
    if not text:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    named = cast("dict[str, object]", found) if isinstance(found, dict) else {"": None}
    if not all(isinstance(each, str) for each in named.values()):
        raise SettingsError(f"{FOUND_TOKENS} is not an object of files by address: lakemq sets it itself, so unset it")
    return {to_url(address): str(file) for address, file in list(named.items())[:ADDRESSES_MAX]}


def _header(token: object, where: str, kind: type[InvalidRequest | SettingsError]) -> Headers:
    try:
        return _bearer(parse_token(token.strip() if isinstance(token, str) else "").text)
    except Unauthenticated:
        raise kind(f"{where} is no token: one is lmq_<id>_<secret>") from None


def _bearer(text: str) -> Headers:
    return {"Authorization": f"Bearer {text}"}


def _read(file: str) -> Headers:
    """The token of a file that somebody named: whatever kind it is, as secrets of containers are links, and others may
    read them. Raises `SettingsError`."""
    try:
        with Path(file).open(encoding="ascii") as opened:
            text = opened.read(TOKEN_CHARACTERS_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise SettingsError(f"{TOKEN_FILE}: {file} can't be read: {reason}") from None
    return _header(text, f"what {TOKEN_FILE} names, {file},", SettingsError)


def _token_file(content: bytes) -> str:
    """Which file the answer names; empty: none."""
    try:
        problem = json.loads(content)
    except (ValueError, RecursionError):
        return ""
    named = cast("dict[str, object]", problem).get("token_file") if isinstance(problem, dict) else None
    return named if isinstance(named, str) else ""


def _say_plain(address: str) -> None:
    """Once for an address: what goes there can be read on the way, as passwords of other queues can be without TLS."""
    if len(_said_plain) < ADDRESSES_MAX:
        _said_plain.add(address)
        if not is_loopback(address):
            logger.warning("the token is sent to %s without TLS: anyone on the way can read it", address)
