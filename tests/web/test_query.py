"""A query is read as the standard library reads it, where it is one."""

from __future__ import annotations

from urllib.parse import parse_qsl

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakemq.model.errors import InvalidRequest
from lakemq.web.asgi import QUERY_BYTES_MAX, QUERY_FIELDS_MAX, parse_query

PIECES = st.sampled_from(["a", "b", "=", "&", "%", "+", "%41", "%c3%bc", "%ff", "%2B", "%26", "é", ";", "1"])


@settings(deadline=None)
@given(st.lists(PIECES, max_size=20).map("".join))
def test_it_is_what_the_standard_library_makes_of_it(text: str) -> None:
    try:
        pairs = parse_qsl(text.encode().decode("ascii"), keep_blank_values=True, errors="strict")
    except ValueError:
        pairs = None
    if pairs is None or len(dict(pairs)) < len(pairs):
        with pytest.raises(InvalidRequest):
            parse_query(text.encode())
    else:
        assert parse_query(text.encode()) == dict(pairs)


@pytest.mark.parametrize(
    "query",
    [
        b"a=1&a=1",
        b"a=1&%61=1",
        b"a=%ff",
        "a=ü".encode(),
        b"&".join(b"%d=" % number for number in range(QUERY_FIELDS_MAX + 1)),
        b"a=" + b"b" * QUERY_BYTES_MAX,
    ],
)
def test_what_is_no_query_is_refused(query: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_query(query)


def test_so_many_fields_may_be() -> None:
    assert len(parse_query(b"&".join(b"%d=" % number for number in range(QUERY_FIELDS_MAX)))) == QUERY_FIELDS_MAX
