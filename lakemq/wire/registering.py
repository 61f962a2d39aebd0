"""Tokens by which brokers may register at a name server: a file that both have, or one each, with a token a line. While
one takes the place of another, the file has both: a name server takes all of them, a broker shows the first that is
taken. `broker-a, broker-b* = lmq_...` is one for brokers of such names alone."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lakemq.model.errors import SettingsError, Unauthenticated
from lakemq.model.sight import Pattern
from lakemq.model.token import Token, parse_token
from lakemq.wire.credentials import Credentials

TOKENS_MAX = 64
NAMES_MAX = 16
"""Names and prefixes of one token."""
_BYTES_MAX = 64 * 1024
_NAME = re.compile(r"[A-Za-z0-9_-]{1,127}\Z")


class Registering(NamedTuple):
    """A token, and the names of brokers that it speaks for. None are named: all."""

    token: Token
    brokers: tuple[Pattern, ...] = ()

    def speaks_for(self, broker: str) -> bool:
        """Whether a broker of that name may register by it."""
        return not self.brokers or any(each.has(broker) for each in self.brokers)


def read_tokens(path: Path, setting: str) -> tuple[Registering, ...]:
    """Those of the file, one at least, in their order. It may be a link; what is read is a file that is private. Raises
    `SettingsError`, which names the setting and shows no token."""
    where = f"{setting}: {path}"
    try:
        # A pipe would hold the process up.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise SettingsError(f"{where} is no file")
            if not is_private(facts.st_mode, facts.st_uid, os.geteuid()):
                raise SettingsError(f"{where} is another user's, or for others to read or write too: chmod 600 {path}")
            content = file.read(_BYTES_MAX + 1)
    except OSError as error:
        raise SettingsError(f"{where} can't be read: {error.strerror}") from None
    lines = [line.strip() for line in content.decode("latin-1").splitlines()]
    try:
        tokens = tuple([_parse(line) for line in lines if line])
    except (Unauthenticated, ValueError):
        tokens = ()
    if not 0 < len(tokens) <= TOKENS_MAX or len(content) > _BYTES_MAX:
        raise SettingsError(
            f"{where} is to have tokens, lmq_<id>_<secret>, a line each, 1 to {TOKENS_MAX} of them; before one may"
            f" stand whom it is for, `broker-a, broker-b* = `, {NAMES_MAX} names or prefixes at most"
        )
    return tokens


def _parse(line: str) -> Registering:
    """Raises `Unauthenticated`, `ValueError`."""
    names, is_limited, token = line.rpartition("=")
    patterns = [_pattern(each.strip()) for each in names.split(",")] if is_limited else []
    if len(patterns) > NAMES_MAX:
        raise ValueError("too many names")
    return Registering(parse_token(token.strip()), tuple(patterns))


def _pattern(text: str) -> Pattern:
    name = text.removesuffix("*")
    if not _NAME.match(name) and text != "*":
        raise ValueError("no broker has such a name")
    return Pattern(name, name != text)


def is_private(mode: int, owner: int, user: int) -> bool:
    """Whether a file of that mode and owner is for this user alone. As PostgreSQL asks of keys: one's own is nobody
    else's, and one of root's may be read by its group, as orchestrators give secrets to processes."""
    if owner == user:
        return not mode & (stat.S_IRWXG | stat.S_IRWXO)
    return owner == 0 and not mode & (stat.S_IWGRP | stat.S_IXGRP | stat.S_IRWXO)


class RegisteringToken(Credentials):
    """What a broker of that name shows name servers: what that file says, and no other token that there is. The file is
    read again when a token is refused."""

    def __init__(self, path: Path, setting: str, broker: str) -> None:
        self._path, self._setting, self._broker = path, setting, broker
        super().__init__()

    def _look(self) -> None:
        self._source = f"{self._setting}={self._path}"
        try:
            self._headers = self._read()[0]
        except SettingsError:
            self._headers = {}  # why is said once it is missing: a broker goes on all the same

    def __reduce__(self) -> tuple[Any, ...]:
        return (RegisteringToken, (self._path, self._setting, self._broker))

    def refused(self, address: str, sent: Mapping[str, str], content: bytes) -> str | None:
        """As `Credentials`. Raises `SettingsError`."""
        del address, content
        now = self._read()
        following = (now.index(sent) + 1) % len(now) if sent in now else 0
        self._headers = now[following]
        return None if self._headers != sent else f"(it is the one of {self._source})"

    def _read(self) -> list[Mapping[str, str]]:
        tokens = tokens_for(self._broker, self._path, self._setting)
        return [{"Authorization": f"Bearer {each.text}"} for each in tokens]


def tokens_for(broker: str, path: Path, setting: str) -> list[Token]:
    """Those of the file that speak for a broker of that name, one at least. Raises `SettingsError`."""
    found = [each.token for each in read_tokens(path, setting) if each.speaks_for(broker)]
    if not found:
        raise SettingsError(f"{setting}: {path} has no token for a broker of the name {broker!r}")
    return found
