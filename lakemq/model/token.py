"""Tokens by which users say who they are: `lmq_<id>_<secret>`."""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import NamedTuple

from lakemq.model.errors import Unauthenticated

PREFIX = "lmq_"
TOKEN_CHARACTERS_MAX = 200
ID_BYTES = 8
SECRET_BYTES = 32

_TOKEN = re.compile(r"lmq_([A-Za-z0-9]{1,32})_([A-Za-z0-9_-]{16,128})\Z")


class Token(NamedTuple):
    """A token's two parts. `secret` stands in no log, no error and no answer but the one that gives it."""

    id: str
    secret: str

    def __repr__(self) -> str:
        return f"Token(id={self.id!r})"

    @property
    def text(self) -> str:
        """As it is sent."""
        return f"{PREFIX}{self.id}_{self.secret}"

    @property
    def secret_hash(self) -> str:
        """What is kept of the secret: its SHA-256, in hexadecimal. It has 256 random bits: nobody finds it by trying,
        so nothing slower is needed."""
        return hashlib.sha256(self.secret.encode()).hexdigest()

    def is_of(self, secret_hash: str) -> bool:
        """Whether that was kept of this secret. Takes as long wherever they differ."""
        return hmac.compare_digest(self.secret_hash, secret_hash)


def make_token(random: bytes) -> Token:
    """The token of `ID_BYTES + SECRET_BYTES` random bytes."""
    return Token(random[:ID_BYTES].hex(), random[ID_BYTES : ID_BYTES + SECRET_BYTES].hex())


def parse_token(text: str) -> Token:
    """Raises `Unauthenticated`, which doesn't say the text."""
    found = None if len(text) > TOKEN_CHARACTERS_MAX else _TOKEN.match(text)
    if found is None:
        raise Unauthenticated("this is no token: one is lmq_<id>_<secret>")
    return Token(found[1], found[2])


def parse_bearer(value: str) -> Token:
    """The token of a header `Authorization: Bearer <token>`. Raises `Unauthenticated`."""
    scheme, _, text = value.strip().partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthenticated("the header Authorization is `Bearer lmq_<id>_<secret>`")
    return parse_token(text.strip())
