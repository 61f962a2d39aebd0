"""Any JSON, and any text that is none, for the routes of groups and requests: refused with a code, or taken;
never a 500, and the gateway goes on."""

from __future__ import annotations

import copy
import json
from typing import Any
from urllib.parse import quote

import httpx
from hypothesis import given, settings
from hypothesis import strategies as st

from lakemq.testing import GatewayProcess
from tests.gateway.http_client import check_problem, put_topic

QUEUE = {"topic": "fuzz-groups", "queue_id": 0}
SUBSCRIPTION = {"topic": "fuzz-groups", "type": "sql92", "expression": "a > 1"}
ROUTES: list[tuple[str, str, Any]] = [
    ("POST", "/v1/groups/{}/members/{}/heartbeat", {"model": "clustering", "subscriptions": [SUBSCRIPTION]}),
    ("DELETE", "/v1/groups/{}/members/{}", None),
    ("GET", "/v1/groups/{}/members", None),
    ("GET", "/v1/groups/{}", None),
    ("GET", "/v1/groups/{}/offsets", None),
    ("PUT", "/v1/groups/{}/offsets", {"offsets": [{**QUEUE, "offset": 1}], "if_absent": False, "resets": 0}),
    ("POST", "/v1/groups/{}/offsets/reset", {"topic": "fuzz-groups", "to": "timestamp", "timestamp_ms": 5}),
    ("POST", "/v1/groups/{}/locks", {"client_id": "c", "queues": [QUEUE]}),
    ("DELETE", "/v1/groups/{}/locks", {"client_id": "c", "queues": [QUEUE]}),
    ("POST", "/v1/topics/{}/requests?timeout_ms=1", {"body": "x", "tag": "T", "properties": {"a": "b"}}),
    ("POST", "/v1/replies/{}", {"body": "x", "keys": ["k"]}),
]
NAMES = st.sampled_from(["g", "fuzz-groups", "a b", "%", "..", "%RETRY%g", "é", "\x00", "x" * 300, "\U0001f600"])
TEXTS = st.text(max_size=6) | st.sampled_from(
    ["\ud800", "fuzz-groups", "%RETRY%g", "a >", "A||", "latest", "first", ""]
)
NUMBERS = st.integers() | st.sampled_from([0, -1, 2**31, 2**53, 2**63, 10**30]) | st.floats()
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)
QUERIES = st.dictionaries(
    st.sampled_from(["generation", "wait_ms", "topic", "timeout_ms", "x"]),
    st.sampled_from(["0", "-1", "x", "", "9" * 30, "é", "\x00", "fuzz-groups", "1e3"]),
    max_size=2,
)


def places(content: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to all values in it, its own first."""
    inner = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [path, *(place for key, value in inner for place in places(value, (*path, key)))]


@st.composite
def bodies(draw: st.DrawFn, content: Any) -> bytes:
    """The content with another value somewhere, or a field more, or cut, or anything at all."""
    content = copy.deepcopy(content)
    *way, last = draw(st.sampled_from(places(content)[1:] or [("x",)]))
    if not isinstance(content, dict):
        content = draw(VALUES)
    else:
        inner = content
        for key in way:
            inner = inner[key]
        inner[draw(TEXTS) if isinstance(inner, dict) and draw(st.booleans()) else last] = draw(VALUES)
    text = json.dumps(content).encode()  # with half surrogates, NaN and Infinity as they are
    return text[: draw(st.integers(0, len(text)))] if draw(st.integers(0, 5)) == 0 else text


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_no_json_is_a_500(gateway: GatewayProcess, http: httpx.Client, data: st.DataObject) -> None:
    put_topic(http, "fuzz-groups")
    method, path, content = data.draw(st.sampled_from(ROUTES))
    names = [quote(data.draw(NAMES), safe="") for _ in range(path.count("{}"))]
    body = data.draw(bodies(content) | st.binary(max_size=20))
    query = {**data.draw(QUERIES)} if "?" not in path else None
    headers = {"Content-Type": "application/json"}
    response = http.request(method, path.format(*names), params=query, content=body, headers=headers)
    assert response.status_code < 500 or response.json()["code"] == "request_timeout", response.text
    if response.status_code >= 400:
        check_problem(response.status_code, response.headers, response.content)
    assert http.get("/healthz").status_code == 200
    assert not [line for line in gateway.log if "Traceback" in line]
