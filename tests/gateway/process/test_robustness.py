from __future__ import annotations

import httpx
from hypothesis import given, settings
from hypothesis import strategies as st

from lakemq.testing import GatewayProcess
from tests.web.fuzz import HEADERS, METHODS, SCRAPS, TARGETS, Connection, check, fuzz

ROUNDS = 600
SECONDS_MAX = 15.0


def test_no_faulty_request_is_a_500_or_stops_the_gateway(fresh_gateway: GatewayProcess) -> None:
    statuses = fuzz(fresh_gateway, 1, range(ROUNDS), SECONDS_MAX)
    assert {200, 400, 404} <= set(statuses)
    assert not [line for line in fresh_gateway.log if "Traceback" in line]


@settings(max_examples=200, deadline=None)
@given(
    method=st.sampled_from(METHODS),
    parts=st.lists(st.sampled_from([*(target.encode() for target in TARGETS), *SCRAPS]) | st.binary(max_size=20)),
    headers=st.lists(st.sampled_from(HEADERS) | st.binary(max_size=40), max_size=4),
    body=st.binary(max_size=200),
)
def test_no_bytes_are_a_500(
    gateway: GatewayProcess, http: httpx.Client, method: str, parts: list[bytes], headers: list[bytes], body: bytes
) -> None:
    line = b"%s /%s HTTP/1.1" % (method.encode(), b"".join(parts).lstrip(b"/"))
    with Connection(gateway) as connection:
        try:
            connection.send(b"\r\n".join([line, *headers, b"Content-Length: %d" % len(body), b"", body]))
            connection.half_close()
        except ConnectionError:
            pass  # it has closed the connection already
        if method != "HEAD" and (answer := connection.answer()) is not None:
            check(answer, is_head=False)
    assert http.get("/healthz").status_code == 200
