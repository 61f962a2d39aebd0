"""What a server looks at of a hello before OpenSSL does."""

from __future__ import annotations

import random
import ssl
import struct
from contextlib import suppress

import pytest

from lakemq.web.hello import FRAGMENTS_MAX, HELLO_BYTES_MAX, NoHello, hello_is_whole

X25519, P256, FFDHE8192, HYBRID = 29, 23, 0x0104, 0x11EC


def vector(data: bytes, size: int = 2) -> bytes:
    return len(data).to_bytes(size, "big") + data


def hello(groups: list[int] | None, shares: list[int] | None = None, more: bytes = b"") -> bytes:
    """A hello's message. None: it says nothing of that."""
    extensions = more
    if groups is not None:
        extensions += struct.pack(">H", 10) + vector(vector(b"".join(struct.pack(">H", each) for each in groups)))
    if shares is not None:
        keys = b"".join(struct.pack(">H", each) + vector(bytes(32)) for each in shares)
        extensions += struct.pack(">H", 51) + vector(vector(keys))
    body = b"\3\3" + bytes(32) + vector(bytes(32), 1) + vector(b"\x13\1") + vector(b"\0", 1) + vector(extensions)
    return b"\1" + vector(body, 3)


def records(message: bytes, size: int = 16 * 1024) -> bytes:
    pieces = (message[begin : begin + size] for begin in range(0, len(message), size))
    return b"".join(b"\x16\3\1" + vector(piece) for piece in pieces)


def test_a_hello_of_openssl_is_taken_once_it_is_whole() -> None:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    data = outgoing.read()
    assert not any(hello_is_whole(data[:size]) for size in range(len(data)))
    assert hello_is_whole(data)
    assert hello_is_whole(data + b"\x14\3\3\0\1\1"), "what follows is OpenSSL's"
    in_pieces = records(data[5:], 64)
    assert not any(hello_is_whole(in_pieces[:size]) for size in range(len(in_pieces)))
    assert hello_is_whole(in_pieces)


@pytest.mark.parametrize(
    ("groups", "shares"),
    [
        (None, None),
        ([X25519], [X25519]),
        ([HYBRID, X25519, P256, FFDHE8192], [HYBRID, X25519]),
        ([P256, FFDHE8192], []),
    ],
)
def test_who_agrees_by_a_curve_is_taken(groups: list[int] | None, shares: list[int] | None) -> None:
    assert hello_is_whole(records(hello(groups, shares)))


@pytest.mark.parametrize(
    ("groups", "shares"),
    [
        ([FFDHE8192], [FFDHE8192]),
        ([P256, FFDHE8192], [FFDHE8192]),
        ([P256, FFDHE8192], [P256, FFDHE8192]),
        ([FFDHE8192, P256], [P256]),
        ([HYBRID, FFDHE8192, P256], [HYBRID]),
        (None, [FFDHE8192]),
    ],
)
def test_who_could_choose_a_finite_field_is_refused(groups: list[int] | None, shares: list[int] | None) -> None:
    with pytest.raises(NoHello):
        hello_is_whole(records(hello(groups, shares)))


def test_what_is_too_large_or_no_hello_is_refused() -> None:
    whole = hello([P256], [P256])
    twice = struct.pack(">H", 10) + vector(vector(b"\0\x17"))
    refused = [
        records(b"\1" + (HELLO_BYTES_MAX + 1).to_bytes(3, "big")),  # before it is there
        records(whole, len(whole) // FRAGMENTS_MAX - 1),
        records(b"\2" + whole[1:]),
        records(whole + b"x"),
        records(whole[:9]) + b"\x17\3\3\0\1x",
        records(hello([P256], None, twice)),
        records(b"\1" + vector(whole[4:] + b"x", 3)),
        records(b"\1" + vector(whole[4:-3], 3)),
    ]
    for data in refused:
        with pytest.raises(NoHello):
            hello_is_whole(data)


def test_whatever_else_comes_is_refused_and_nothing_worse() -> None:
    drawn, whole = random.Random(15), hello([P256, X25519], [P256])
    for _ in range(3_000):
        changed = bytearray(whole)
        for _ in range(drawn.randint(1, 4)):
            changed[drawn.randrange(len(changed))] = drawn.randrange(256)
        with suppress(NoHello):
            hello_is_whole(records(bytes(changed[: drawn.randint(1, len(changed))])))
