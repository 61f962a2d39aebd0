"""Bodies of messages that say by themselves whether they are whole, and which one they are."""

from __future__ import annotations

from hashlib import blake2b

NAME_CHARACTERS = 32


def make_payload(identity: str, size: int = 0) -> bytes:
    """A body of at least `size` bytes: its name (a hash, in hex) and what it is the hash of.

    Different identities have different names. The bytes are ASCII, so any form of request carries them.
    """
    rest = f" {identity} ".encode()
    rest += (blake2b(rest, digest_size=32).hexdigest().encode() * (size // 64 + 1))[: max(0, size - len(rest) - 32)]
    return _name(rest) + rest


def name_of_payload(body: bytes) -> str | None:
    """The payload's name; None when these bytes are not what `make_payload` made."""
    name, rest = body[:NAME_CHARACTERS], body[NAME_CHARACTERS:]
    return name.decode() if name == _name(rest) else None


def _name(rest: bytes) -> bytes:
    return blake2b(rest, digest_size=NAME_CHARACTERS // 2).hexdigest().encode()
