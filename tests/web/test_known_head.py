"""A head that comes again, with another query at most, is known: it is what the parser would make of it."""

from __future__ import annotations

import re

import httptools
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakemq.web.asgi import Scope
from lakemq.web.known_head import KnownHead, known_head
from lakemq.web.problems import Headers

HEADERS = b"Host: localhost\r\nAccept: x/y\r\n"


class Parsed:
    """What httptools makes of a request."""

    def __init__(self, data: bytes) -> None:
        self.url, self.body, self.whole = b"", b"", 0
        self.headers: Headers = []
        self.parser = httptools.HttpRequestParser(self)
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name, value))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.whole += 1


def request(target: bytes, body: bytes = b"", method: bytes = b"GET", headers: bytes = HEADERS) -> bytes:
    size = b"Content-Length: %d\r\n" % len(body) if body else b""
    return b"%b %b HTTP/1.1\r\n%b%b\r\n%b" % (method, target, headers, size, body)


def known(target: bytes, body: bytes = b"", method: bytes = b"GET") -> KnownHead | None:
    data = request(target, body, method)
    scope: Scope = {"method": method.decode()}
    return known_head(data, len(body), target, Parsed(data).headers, scope)


def test_the_same_head_with_another_query_is_known() -> None:
    found = known(b"/a/b?x=1")
    assert found is not None
    for query in (b"", b"x=2", b"x=2&y=%20+", b"a" * 1000):
        assert found.query_of(request(b"/a/b?" + query)) == query


@pytest.mark.parametrize(
    "other",
    [
        request(b"/a/c?x=1"),
        request(b"/a/b"),
        request(b"/a/b?x=1", headers=b"Host: evil\r\nAccept: x/y\r\n"),
        request(b"/a/b?x=1", headers=HEADERS + b"Connection: close\r\n"),
        request(b"/a/b?x=1", headers=HEADERS + b"Expect: 100-continue\r\n"),
        request(b"/a/b?x=1", b"body"),
        request(b"/a/b?x=1", method=b"HEAD"),
        request(b"/a/b?x=1").replace(b"HTTP/1.1", b"HTTP/1.0"),
        request(b"/a/b?x=1") + b"GET",
        request(b"/a/b?x=1") * 2,
        request(b"/a/b?x=1")[:-1],
        request(b"/a/b?x=1#y"),
        request(b"/a/b?x=1 HTTP/1.1\r\nX: y\r\n\r\nGET /a/b?"),
        request(b"/a/b?x=1\x00"),
        request("/a/b?x=ü".encode()),
        request(b"/a/b?x=1\t"),
        request(b'/a/b?x="'),
        b"",
    ],
)
def test_any_other_request_is_parsed(other: bytes) -> None:
    found = known(b"/a/b?x=1")
    assert found is not None
    assert found.query_of(other) is None


def test_without_a_query_it_is_the_same_target() -> None:
    found = known(b"/a/b", b"12345", b"PUT")
    assert found is not None
    assert found.query_of(request(b"/a/b", b"54321", b"PUT")) == b""
    for target in (b"/a/bc", b"/a/b?", b"/a/b?x=1"):
        assert found.query_of(request(target, b"54321", b"PUT")) is None
    assert found.query_of(request(b"/a/b", b"5432", b"PUT")) is None


@pytest.mark.parametrize("target", [b"http://localhost/a", b"/a#b", b"/a?b#c", b"*"])
def test_a_target_that_is_special_is_not_kept(target: bytes) -> None:
    data = request(target)
    assert known_head(data, 0, target, [], {"method": "GET"}) is None


def test_a_post_with_a_query_is_not_kept() -> None:
    """Another query could make it one that is served without ASGI."""
    assert known(b"/a?b=c", b"x", b"POST") is None
    assert known(b"/a", b"x", b"POST") is not None


def test_a_body_in_chunks_is_not_kept() -> None:
    data = request(b"/a", headers=HEADERS + b"Transfer-Encoding: chunked\r\n") + b"2\r\nab\r\n0\r\n\r\n"
    assert known_head(data, 2, b"/a", [], {"method": "GET"}) is None


def test_lines_before_the_request_are_not_kept() -> None:
    assert known_head(b"\r\n" + request(b"/a"), 0, b"/a", [], {"method": "GET"}) is None


@settings(deadline=None)
@given(st.binary(max_size=30), st.binary(max_size=5))
def test_what_is_known_is_what_the_parser_makes_of_it(query: bytes, body: bytes) -> None:
    found = known(b"/a/b?x=1", body, b"PUT")
    assert found is not None
    data = request(b"/a/b?" + query, body, b"PUT")
    taken = found.query_of(data)
    if taken is None:
        assert not re.fullmatch(rb"[a-z0-9=&%._-]*", query)
        return
    parsed = Parsed(data)
    assert (parsed.url, parsed.headers, parsed.body, parsed.whole) == (found.url + taken, found.headers, body, 1)
    assert (httptools.parse_url(parsed.url).query or b"") == taken
