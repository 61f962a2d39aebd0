"""A client's first message (RFC 8446, 4.1.2), looked at before OpenSSL is: OpenSSL does and holds what it says.

OpenSSL keeps room for as much as a hello says that it has, and computes with the group that the client has chosen: an
exchange over a large finite field (ffdhe8192) takes the server a hundred milliseconds and its client nothing. Python
can't name several groups to OpenSSL before 3.15, and one alone would cost most clients another round trip.
"""

from __future__ import annotations

from lakemq.web.records import HEADER_BYTES, record_bytes

HELLO_BYTES_MAX = 16 * 1024
"""Hellos have some hundred bytes, and with keys that stand against quantum computers less than two thousand."""
FRAGMENTS_MAX = 32
"""Records that one hello may come in."""
_HANDSHAKE, _CLIENT_HELLO = 22, 1
_GROUPS, _KEY_SHARE = 10, 51
_FINITE_FIELDS = range(0x0100, 0x0200)
_CURVES = (23, 24, 25)
"""P-256, P-384, P-521: every OpenSSL knows them, so it never looks for a group behind one."""


class NoHello(ValueError):
    """It begins with no hello that is answered."""


def is_handshake(data: bytes | memoryview) -> bool:
    """Whether it may begin with a hello. OpenSSL has the words for what else it is."""
    return data[0] == _HANDSHAKE


def hello_is_whole(data: bytes | memoryview) -> bool:
    """Whether all of the hello is there that `data` begins with. Raises `NoHello`, also for one that is too large, and
    for one that may choose a finite field."""
    message, at = b"", 0
    for _ in range(FRAGMENTS_MAX):
        size = record_bytes(data[at:])
        if not size:
            return False
        if data[at] != _HANDSHAKE:
            raise NoHello("the hello is broken off")
        message += data[at + HEADER_BYTES : at + size]
        at += size
        if len(message) >= 4:  # a type and a length
            length = int.from_bytes(message[1:4], "big")
            if message[0] != _CLIENT_HELLO:
                raise NoHello("it begins with no hello")
            if length > HELLO_BYTES_MAX:
                raise NoHello(f"a hello of {length} bytes")
            if len(message) - 4 > length:
                raise NoHello("there is more in the hello's record")
            if len(message) - 4 == length:
                _check_groups(_extensions(_Reader(message[4:])))
                return True
    raise NoHello(f"a hello in more than {FRAGMENTS_MAX} records")


class _Reader:
    """Numbers and vectors, from the front. All raise `NoHello` where there is no more."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def __bool__(self) -> bool:
        return bool(self._data)

    def take(self, size: int) -> bytes:
        taken, self._data = self._data[:size], self._data[size:]
        if len(taken) < size:
            raise NoHello("a hello that ends too early")
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def vector(self, size: int) -> _Reader:
        """Bytes whose number stands before them, in `size` bytes."""
        return _Reader(self.take(self.number(size)))


def _extensions(hello: _Reader) -> dict[int, _Reader]:
    hello.take(2 + 32)  # version and random
    for size in (1, 2, 1):  # session, ciphers, compression
        hello.vector(size)
    found: dict[int, _Reader] = {}
    extensions = hello.vector(2) if hello else _Reader(b"")
    while extensions:
        kind, data = extensions.number(2), extensions.vector(2)
        if kind in found:
            raise NoHello("a hello says something twice")
        found[kind] = data
    if hello:
        raise NoHello("a hello goes on behind its end")
    return found


def _check_groups(extensions: dict[int, _Reader]) -> None:
    """OpenSSL takes the first of the client's keys that it can, or asks for one of the first group that it can: neither
    may be of a finite field."""
    groups = extensions.get(_GROUPS, _Reader(b""))
    offered = groups.vector(2) if groups else groups
    while offered:
        group = offered.number(2)
        if group in _CURVES:
            break
        if group in _FINITE_FIELDS:
            raise NoHello("it wants Diffie-Hellman over a finite field before P-256")
    shares = extensions.get(_KEY_SHARE, _Reader(b""))
    keys = shares.vector(2) if shares else shares
    while keys:
        if keys.number(2) in _FINITE_FIELDS:
            raise NoHello("its key is of a finite field")
        keys.vector(2)
