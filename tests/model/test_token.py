"""Tokens by which users say who they are."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemq.model.errors import Unauthenticated
from lakemq.model.token import (
    ID_BYTES,
    SECRET_BYTES,
    TOKEN_CHARACTERS_MAX,
    Token,
    make_token,
    parse_bearer,
    parse_token,
)

RANDOM = bytes(range(ID_BYTES + SECRET_BYTES))
TOKEN = make_token(RANDOM)


@given(st.binary(min_size=ID_BYTES + SECRET_BYTES, max_size=ID_BYTES + SECRET_BYTES))
def test_a_token_is_read_as_it_was_made(random: bytes) -> None:
    made = make_token(random)
    assert parse_token(made.text) == parse_bearer(f"Bearer {made.text}") == made
    assert bytes.fromhex(made.id + made.secret) == random, "all of it counts"
    assert len(made.text) <= TOKEN_CHARACTERS_MAX


@pytest.mark.parametrize("value", ["bearer {}", "BEARER {}", "Bearer   {}", " Bearer {} "])
def test_the_scheme_is_of_any_case(value: str) -> None:
    assert parse_bearer(value.format(TOKEN.text)) == TOKEN


@pytest.mark.parametrize("value", ["", "Bearer", TOKEN.text, f"Basic {TOKEN.text}", f"Bearer{TOKEN.text}"])
def test_another_scheme_is_refused(value: str) -> None:
    with pytest.raises(Unauthenticated) as refused:
        parse_bearer(value)
    assert TOKEN.secret not in refused.value.detail


@pytest.mark.parametrize(
    "text",
    [
        "",
        "lmq_",
        TOKEN.text[4:],
        f"LMQ{TOKEN.text[3:]}",
        f"{TOKEN.text}\n",
        f"{TOKEN.text} ",
        TOKEN.text + "x" * TOKEN_CHARACTERS_MAX,
        f"lmq_{TOKEN.id}_short",
        f"lmq__{TOKEN.secret}",
        f"lmq_{TOKEN.id}_{TOKEN.secret[:-1]}ä",
    ],
)
def test_what_is_no_token_is_refused_and_not_said_again(text: str) -> None:
    with pytest.raises(Unauthenticated) as refused:
        parse_token(text)
    assert refused.value.detail == "this is no token: one is lmq_<id>_<secret>"


@given(st.text())
def test_any_text_is_a_token_or_refused(text: str) -> None:
    for parse in (parse_token, parse_bearer):
        try:
            parse(text)
        except Unauthenticated:
            continue
        raise AssertionError(f"{text!r} is a token")


def test_a_token_is_of_what_was_kept_of_it_and_of_nothing_else() -> None:
    assert TOKEN.secret_hash == hashlib.sha256(TOKEN.secret.encode()).hexdigest()
    assert TOKEN.is_of(TOKEN.secret_hash)
    assert not TOKEN.is_of(make_token(RANDOM[::-1]).secret_hash)
    assert not TOKEN.is_of("")
    assert Token("other", TOKEN.secret).is_of(TOKEN.secret_hash), "the id finds it, the secret proves it"


def test_a_secret_is_in_no_text_of_a_token_but_the_one_that_is_sent() -> None:
    for shown in (repr(TOKEN), str(TOKEN), f"{TOKEN}", f"{[TOKEN]}"):
        assert TOKEN.secret not in shown
        assert TOKEN.id in shown
    assert TOKEN.text == f"lmq_{TOKEN.id}_{TOKEN.secret}"
