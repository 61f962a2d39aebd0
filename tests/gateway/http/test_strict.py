"""What nobody knows is refused: query fields, headers of ours, bodies that aren't called JSON."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from lakemq.contract import schema_routes
from lakemq.contract.route import Reads
from lakemq.contract.routes import ALL, LOG_PART
from tests.gateway.http_client import JSON, is_problem, produce, pull_all, put_topic, write_arrow

FORM = "application/x-www-form-urlencoded"


def routes(http: httpx.Client) -> list[tuple[str, str]]:
    """Method and path of all routes, with a name for each parameter."""
    paths = http.get("/openapi.json").json()["paths"]
    return [
        (method.upper(), re.sub(r"\{(\w+)\}", lambda found: "1" if found[1] in ("queue_id", "batch") else "x", path))
        for path, methods in paths.items()
        for method in methods
    ]


def test_what_is_documented_and_what_fastapi_takes_is_the_contract(http: httpx.Client) -> None:
    paths = http.get("/openapi.json").json()["paths"]
    documented = {
        (method.upper(), path): [field_of(each) for each in operation.get("parameters", ()) if each["in"] == "query"]
        for path, methods in paths.items()
        for method, operation in methods.items()
    }
    assert documented == {
        (route.method, route.path): [(each.name, each.required, each.default, each.choices) for each in route.query]
        for route in ALL
        if route.tag != "docs"
    }
    named = [operation["operationId"] for methods in paths.values() for operation in methods.values()]
    assert len(set(named)) == len(named)
    json = {
        (method.upper(), path)
        for path, methods in paths.items()
        for method, operation in methods.items()
        if operation.get("requestBody", {"content": {}})["content"].keys() == {JSON}
    }
    assert json == {(each.method, each.path) for each in ALL if each.reads is Reads.JSON}


def field_of(parameter: dict[str, Any]) -> tuple[str, bool, object, tuple[str, ...]]:
    """A field of a query as it is documented: name, whether it is needed, its default, its choices."""
    schemas = parameter["schema"].get("anyOf", [parameter["schema"]])
    choices = tuple(choice for schema in schemas for choice in schema.get("enum", ()))
    return parameter["name"], parameter["required"], parameter["schema"].get("default"), choices


def test_what_is_less_than_a_field_may_be_is_refused_and_documented(http: httpx.Client) -> None:
    put_topic(http, "least", 1)
    paths = http.get("/openapi.json").json()["paths"]
    own = [route for route in ALL if route not in (LOG_PART, *schema_routes.ALL)]  # whose fields FastAPI refuses
    bound = [(route, field) for route in own for field in route.query if field.least is not None]
    of_reading = {"offset", "max", "wait_ms", "timeout_ms", "from", "to", "bytes_max"}
    assert {field.name for _, field in bound} == of_reading | {
        "epoch",
        "replica",
        "durable",
        "erased",
        "seen_epoch",
        "first",
    }
    for route, field in bound:
        parameters = paths[route.path][route.method.lower()]["parameters"]
        (minimum,) = [each["schema"]["minimum"] for each in parameters if each["name"] == field.name]
        path = route.path.replace("{topic}", "least").replace("{queue_id}", "0")
        query = {each.name: 0 for each in route.query if each.required} | {field.name: minimum - 1}
        body = {"body": "x"} if route.reads is Reads.MESSAGES else None
        refused = http.request(route.method, path, params=query, json=body)
        assert is_problem(refused, 400, "invalid_request")
        assert f"{field.name} is {minimum - 1}; it may be {minimum} to" in refused.json()["detail"]


def test_what_is_refused_unread_and_large_ends_its_connection(http: httpx.Client) -> None:
    large, small = b"x" * 5_000_000, b"x" * 1_000
    for path in ("/v1/jobs", "/v1/nowhere"):
        for content, ends in ((large, True), (small, False)):
            response = http.put(path, content=content, headers={"Content-Type": "text/plain"})
            assert response.status_code in (404, 415)
            assert (response.headers.get("connection") == "close") is ends


def test_a_method_that_a_path_has_not_is_told_which_it_has(http: httpx.Client) -> None:
    response = http.request("PATCH", "/v1/topics/t/messages")
    assert is_problem(response, 405, "method_not_allowed")
    assert response.headers["allow"] == "POST"
    assert http.post("/healthz").headers["allow"] == "GET"


def test_no_route_takes_a_query_field_that_it_does_not_know(http: httpx.Client) -> None:
    for method, path in [*routes(http), ("GET", "/docs"), ("GET", "/openapi.json")]:
        response = http.request(method, path, params={"bogus": "1"})
        assert is_problem(response, 400, "invalid_request"), (method, path)
        assert "bogus" in response.json()["detail"], (method, path)


def test_every_route_still_takes_those_that_it_declares(http: httpx.Client) -> None:
    paths = http.get("/openapi.json").json()["paths"]
    for path, methods in paths.items():
        for method, operation in methods.items():
            fields = {each["name"]: "1" for each in operation.get("parameters", ()) if each["in"] == "query"}
            target = re.sub(r"\{\w+\}", "1", path)
            response = http.request(method, target, params=fields, timeout=60)
            assert "unknown query field" not in response.text, (method, path)


def test_no_route_ignores_a_header_of_ours(http: httpx.Client) -> None:
    for method, path in routes(http):
        headers = {"Lakemq-Delay": "1h", "Content-Type": JSON}
        query = {"producer_group": "g", "offset": "0"} if path.startswith("/v1/topics/x/") else {}
        query = {name: value for name, value in query.items() if (name == "offset") == path.endswith("1/messages")}
        query = query if path.endswith(("1/messages", "transactions")) else {}
        body = b'{"body": "x"}' if path.endswith(("requests", "x")) else b"{}"
        response = http.request(method, path, headers=headers, params=query, content=body)
        assert is_problem(response, 400, "invalid_request"), (method, path)
        assert "lakemq-delay" in response.json()["detail"], (method, path, response.text)


@pytest.mark.parametrize("name", ["Lakemq-Delay", "Lakemq-", "Lakemq-Born-Time-Ms", "Lakemq-Properties"])
def test_a_misspelt_header_of_a_message_stores_nothing(http: httpx.Client, topic: str, name: str) -> None:
    put_topic(http, topic)
    for path in (f"/v1/topics/{topic}/messages", f"/v1/topics/{topic}/transactions?producer_group=g"):
        response = http.post(path, content=b"x", headers={name: "1h"})
        assert is_problem(response, 400, "invalid_request")
        assert name.lower() in response.json()["detail"]
    assert pull_all(http, topic) == []


@pytest.mark.parametrize(
    ("media", "content", "names"),
    [
        (JSON, b'{"messages": [{"body": "x"}]}', ["Lakemq-Tag", "Lakemq-Delay-Level", "Lakemq-Property-a"]),
        ("application/x-ndjson", b'{"body": "x"}', ["Lakemq-Keys", "Lakemq-Queue-Id"]),
        ("application/vnd.apache.arrow.stream", write_arrow({"body": [b"x"]}), ["Lakemq-Ordering-Key"]),
        (
            "application/cloudevents+json",
            b'{"specversion": "1.0", "id": "1", "source": "s", "type": "t"}',
            ["Lakemq-Tag", "Lakemq-Property-a"],
        ),
    ],
)
def test_a_form_with_fields_of_its_own_takes_no_header_for_them(
    http: httpx.Client, topic: str, media: str, content: bytes, names: list[str]
) -> None:
    path = f"/v1/topics/{topic}/messages"
    for name in names:
        response = http.post(path, content=content, headers={"Content-Type": media, name: "1"})
        assert is_problem(response, 400, "invalid_request")
        assert name.lower() in response.json()["detail"]
    assert http.post(path, content=content, headers={"Content-Type": media}).status_code == 200


@pytest.mark.parametrize("media", [FORM, "text/plain", "multipart/form-data; boundary=x", None])
def test_json_has_to_be_called_json(http: httpx.Client, topic: str, media: str | None) -> None:
    """Pages of other sites send these without asking first."""
    headers = {} if media is None else {"Content-Type": media}
    for method, path, content in (
        ("PUT", f"/v1/topics/{topic}", b'{"queues": 2}'),
        ("POST", "/v1/groups/g/receive", b'{"topic": "t"}'),
        ("POST", "/v1/groups/g/acks", b'{"receipts": []}'),
        ("POST", "/v1/transactions/broker-a.5", b'{"producer_group": "g", "resolution": "commit"}'),
        ("POST", "/v1/transactions", b'{"producer_group": "g", "resolutions": []}'),
        ("DELETE", "/v1/groups/g/locks", b'{"client_id": "c", "queues": []}'),
    ):
        response = http.request(method, path, content=content, headers=headers)
        assert is_problem(response, 415, "unsupported_media_type"), (method, path)
    assert http.get(f"/v1/topics/{topic}").status_code == 404
    assert http.put(f"/v1/topics/{topic}").status_code == 201


def test_the_type_that_curl_puts_on_everything_is_no_property(http: httpx.Client, topic: str) -> None:
    put_topic(http, topic)
    for extra in ({}, {"Lakemq-Tag": "T"}):
        response = http.post(f"/v1/topics/{topic}/messages", content=b"x", headers={"Content-Type": FORM, **extra})
        assert response.status_code == 200
    http.post(f"/v1/topics/{topic}/messages", content=b"x", headers={"Content-Type": "text/csv"})
    properties = [message.get("properties") for message in pull_all(http, topic)]
    assert [each or {} for each in properties] == [{}, {}, {"content_type": "text/csv"}]
    assert produce(http, topic, "after")


def test_the_page_of_the_api_loads_nothing_from_elsewhere(http: httpx.Client) -> None:
    response = http.get("/docs")
    policy = response.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert not re.findall(r"(?:src|href)\s*=\s*[\"']?(?:https?:)?//", response.text)
    assert "http" not in re.sub(r"<!doctype html>", "", response.text)
    assert http.get("/redoc").status_code == 404
