from __future__ import annotations

import gzip
import random
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.gateway.decode import inflate
from lakemq.model.errors import InvalidRequest, MessageTooLarge, UnsupportedMediaType

MIB = 1024 * 1024


def bare_deflate(body: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(body) + compressor.flush()


FORMS = {"gzip": gzip.compress, "deflate": zlib.compress, "Deflate": bare_deflate}


@given(st.binary(max_size=2_000), st.sampled_from(sorted(FORMS)))
def test_what_was_compressed_comes_back(body: bytes, encoding: str) -> None:
    assert inflate(encoding, FORMS[encoding](body), 2_000) == body


@pytest.mark.parametrize("encoding", sorted(FORMS))
def test_bodies_of_many_steps_come_back(encoding: str) -> None:
    for body in (random.Random(5).randbytes(300_000), bytes(3 * MIB)):
        assert inflate(encoding, FORMS[encoding](body), len(body)) == body


@pytest.mark.parametrize("encoding", ["", "identity", " Identity "])
def test_identity_is_the_body_itself(encoding: str) -> None:
    assert inflate(encoding, b"abc", 3) == b"abc"
    with pytest.raises(MessageTooLarge):
        inflate(encoding, b"abcd", 3)


@pytest.mark.parametrize("encoding", sorted(FORMS))
def test_a_bomb_is_refused_once_it_passes_the_limit(encoding: str) -> None:
    bomb = FORMS[encoding](bytes(64 * MIB))
    with pytest.raises(MessageTooLarge, match="too large when inflated"):
        inflate(encoding, bomb, MIB)


@pytest.mark.parametrize("encoding", sorted(FORMS))
def test_the_limit_itself_may_be_reached(encoding: str) -> None:
    body = FORMS[encoding](bytes(MIB))
    assert len(inflate(encoding, body, MIB)) == MIB
    with pytest.raises(MessageTooLarge):
        inflate(encoding, body, MIB - 1)


def test_gzip_may_have_several_members_that_count_together() -> None:
    members = gzip.compress(b"a" * 100) + gzip.compress(b"") + gzip.compress(b"b" * 100)
    assert inflate("x-gzip", members, 200) == b"a" * 100 + b"b" * 100
    with pytest.raises(MessageTooLarge):
        inflate("gzip", members, 199)


def test_gzip_of_countless_members_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="more than 4096 members"):
        inflate("gzip", gzip.compress(b"") * 4_097, MIB)


@pytest.mark.parametrize("encoding", sorted(FORMS))
def test_every_truncation_is_refused(encoding: str) -> None:
    body = FORMS[encoding](b"some text " * 20)
    for length in range(len(body)):
        with pytest.raises(InvalidRequest):
            inflate(encoding, body[:length], MIB)


@pytest.mark.parametrize("encoding", sorted(FORMS))
def test_bytes_after_the_end_are_refused(encoding: str) -> None:
    with pytest.raises(InvalidRequest):
        inflate(encoding, FORMS[encoding](b"text") + b"\0", MIB)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
@given(garbage=st.binary(max_size=100))
def test_garbage_is_inflated_or_refused(encoding: str, garbage: bytes) -> None:
    try:
        inflate(encoding, garbage, 1_000)
    except (InvalidRequest, MessageTooLarge):
        return
    assert encoding == "deflate", "random bytes are no gzip: it has a checksum"


def test_a_changed_byte_fails_the_checksum() -> None:
    body = bytearray(gzip.compress(b"text" * 10, compresslevel=0))
    body[20] ^= 1
    with pytest.raises(InvalidRequest, match="can't be inflated"):
        inflate("gzip", bytes(body), MIB)


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress", "é"])
def test_other_encodings_are_refused(encoding: str) -> None:
    with pytest.raises(UnsupportedMediaType):
        inflate(encoding, b"", MIB)
