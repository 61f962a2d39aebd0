from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

import lakemq
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.http_client import Connection, check_problem, connect, is_problem, produce, pull_all

POSITIONS = {"min_position", "max_position", "flushed_position", "compacted_position", "confirmed_position"}


def test_the_broker_says_who_and_where_it_is(fresh_gateway: GatewayProcess) -> None:
    with connect(fresh_gateway) as http:
        (placed,) = produce(http, "t", "hello", ack="sync")
        broker = http.get("/v1/broker").json()
    assert (broker["name"], broker["role"], broker["version"]) == ("broker-a", "primary", lakemq.__version__)
    assert set(broker["positions"]) == POSITIONS
    assert broker["positions"] == {name: broker[name] for name in POSITIONS}
    assert broker["max_position"] == broker["flushed_position"] == placed["position"] + 1


def test_a_log_keeps_its_id(tmp_path: Path) -> None:
    said: list[dict[str, Any]] = []
    for name in ("one", "one", "other"):
        with start_gateway(tmp_path / name) as gateway, connect(gateway) as http:
            said.append(http.get("/v1/broker").json())
    first, again, other = [UUID(each["log_id"]) for each in said]
    assert first == again != other
    assert [each["epoch"] for each in said] == [1, 1, 1]


def test_a_broker_has_the_name_that_is_set(tmp_path: Path) -> None:
    with start_gateway(tmp_path, broker__name="other") as gateway, connect(gateway) as http:
        assert http.get("/v1/broker").json()["name"] == "other"
        (placed,) = produce(http, "t", "hello")
        assert placed["message_id"].startswith("other")
        assert http.get(f"/v1/messages/{placed['message_id']}").json()["body"] == "hello"


def test_health_and_readiness_are_200(http: httpx.Client) -> None:
    assert http.get("/healthz").status_code == 200
    assert http.get("/readyz").status_code == 200


def test_metrics_are_prometheus_and_count(fresh_gateway: GatewayProcess) -> None:
    def values(http: httpx.Client) -> dict[str, float]:
        response = http.get("/metrics")
        assert response.headers["content-type"].startswith("text/plain")
        lines = [line for line in response.text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}

    with connect(fresh_gateway) as http:
        before = values(http)
        produce(http, "t", "12345", "678")
        assert len(pull_all(http, "t")) == 2
        http.get("/nothing")
        after = values(http)
    grown = {name: after[name] - before.get(name, 0) for name in after}
    assert grown["lakemq_messages_in_total"] == 2
    assert grown["lakemq_bytes_in_total"] == 8
    assert grown["lakemq_messages_out_total"] == 2
    assert grown['lakemq_problems_total{code="not_found"}'] == 1
    assert after["lakemq_writable"] == 1


def test_the_contract_is_documented(http: httpx.Client) -> None:
    document = http.get("/openapi.json").json()
    assert document["openapi"].startswith("3.")
    paths = {
        "/v1/topics/{topic}/messages",
        "/v1/topics/{topic}/queues/{queue_id}/messages",
        "/v1/topics/{topic}/queues/{queue_id}/offset",
        "/v1/topics/{topic}",
        "/v1/topics",
        "/v1/messages/{message_id}",
        "/v1/broker",
        "/healthz",
        "/readyz",
        "/metrics",
    }
    assert paths <= set(document["paths"])
    response = http.get("/docs")
    assert (response.status_code, response.headers["content-type"].split(";")[0]) == (200, "text/html")


@pytest.mark.parametrize(
    "path",
    ["/", "/v1", "/v2/topics", "/healthz/", "/v1/topics/", "/v1/topics/a/b/c", "/%00", "/ü", "/v1//topics", "//"],
)
def test_an_unknown_path_is_a_problem(gateway: GatewayProcess, http: httpx.Client, path: str) -> None:
    response = http.get(f"{gateway.url}{path}")
    assert is_problem(response, 404, "not_found")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE", "PROPFIND"])
@pytest.mark.parametrize("path", ["/healthz", "/v1/topics", "/v1/broker", "/v1/topics/t/queues/0/messages"])
def test_a_method_that_a_path_does_not_have_is_a_problem(http: httpx.Client, method: str, path: str) -> None:
    response = http.request(method, path)
    assert response.status_code == 405
    if method != "HEAD":
        assert is_problem(response, 405, "method_not_allowed")
        assert response.headers["allow"] == "GET"


def test_a_method_that_http_does_not_have_is_a_400(gateway: GatewayProcess) -> None:
    with Connection(gateway) as connection:
        connection.send(b"MAKE /v1/topics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = connection.answer()
        assert answer is not None
        assert answer.status == 400
        check_problem(400, answer.headers, answer.body)


def test_how_far_the_lake_is_can_be_told(http: httpx.Client, topic: str) -> None:
    (placed,) = produce(http, topic, "hello")
    told = {"compacted_position": placed["position"]}
    response = http.put("/v1/broker/compacted", json=told)
    assert (response.status_code, response.json()) == (200, told)
    assert http.get("/v1/broker").json()["compacted_position"] == placed["position"]


@pytest.mark.parametrize(
    "body", [{}, {"compacted_position": -1}, {"compacted_position": 10**18}, {"compacted_position": "1"}, [], {"x": 1}]
)
def test_the_lake_can_not_be_where_the_log_is_not(http: httpx.Client, body: Any) -> None:
    before = http.get("/v1/broker").json()["compacted_position"]
    assert is_problem(http.put("/v1/broker/compacted", json=body), 400, "invalid_request")
    assert http.get("/v1/broker").json()["compacted_position"] == before
