"""Tokens by which brokers may register at a name server: a file that both have, or one each, with a token a line. While
one takes the place of another, the file has both: a name server takes all of them, a broker shows the first that is
taken."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lakemq.model.errors import SettingsError, Unauthenticated
from lakemq.model.token import Token, parse_token
from lakemq.wire.credentials import Credentials

TOKENS_MAX = 8
_BYTES_MAX = 4_096


def read_tokens(path: Path, setting: str) -> tuple[Token, ...]:
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
        tokens = tuple([parse_token(line) for line in lines if line])
    except Unauthenticated:
        tokens = ()
    if not 0 < len(tokens) <= TOKENS_MAX or len(content) > _BYTES_MAX:
        raise SettingsError(f"{where} is to have tokens, lmq_<id>_<secret>, a line each, 1 to {TOKENS_MAX} of them")
    return tokens


def is_private(mode: int, owner: int, user: int) -> bool:
    """Whether a file of that mode and owner is for this user alone. As PostgreSQL asks of keys: one's own is nobody
    else's, and one of root's may be read by its group, as orchestrators give secrets to processes."""
    if owner == user:
        return not mode & (stat.S_IRWXG | stat.S_IRWXO)
    return owner == 0 and not mode & (stat.S_IWGRP | stat.S_IXGRP | stat.S_IRWXO)


class RegisteringToken(Credentials):
    """What a broker shows name servers: what that file says, and no other token that there is. The file is read again
    when a token is refused."""

    def __init__(self, path: Path, setting: str) -> None:
        self._path, self._setting = path, setting
        super().__init__()

    def _look(self) -> None:
        self._source = f"{self._setting}={self._path}"
        try:
            self._headers = self._read()[0]
        except SettingsError:
            self._headers = {}  # why is said once it is missing: a broker goes on all the same

    def __reduce__(self) -> tuple[Any, ...]:
        return (RegisteringToken, (self._path, self._setting))

    def refused(self, address: str, sent: Mapping[str, str], content: bytes) -> str | None:
        """As `Credentials`. Raises `SettingsError`."""
        del address, content
        now = self._read()
        following = (now.index(sent) + 1) % len(now) if sent in now else 0
        self._headers = now[following]
        return None if self._headers != sent else f"(it is the one of {self._source})"

    def _read(self) -> list[Mapping[str, str]]:
        return [{"Authorization": f"Bearer {each.text}"} for each in read_tokens(self._path, self._setting)]
