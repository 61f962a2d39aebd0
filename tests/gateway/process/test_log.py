"""What a gateway writes to its log, and how a request is found there again."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.model.access import ADMINISTRATOR
from lakemq.model.names import AUDIT_TOPIC
from lakemq.testing import GatewayProcess, start_gateway
from tests.client.consuming import wait_until
from tests.gateway.access.asking import allow, ask_as, make_user, token_of
from tests.gateway.http_client import connect

LEVELS = "/v1/broker/log-levels"
TOLD = "lakemq.web.told"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "data"


@pytest.fixture(scope="module")
def gateway(folder: Path) -> Iterator[GatewayProcess]:
    """Its own: levels are its process's."""
    options: dict[str, Any] = {"log__format": "json", "auth__audit": "true"}
    with start_gateway(folder, **options) as process:
        yield process


@pytest.fixture
def http(gateway: GatewayProcess) -> Iterator[httpx.Client]:
    with connect(gateway) as client:
        yield client
        client.put(LEVELS, json={"levels": {"lakemq": None, TOLD: None}}).raise_for_status()


def lines(gateway: GatewayProcess) -> list[dict[str, Any]]:
    return [json.loads(line) for line in list(gateway.log)]


def told(gateway: GatewayProcess, request_id: str) -> list[dict[str, Any]]:
    return [line for line in lines(gateway) if line.get("request_id") == request_id]


def test_all_that_it_writes_is_json_also_that_it_listens(gateway: GatewayProcess) -> None:
    said = [line["message"] for line in lines(gateway)]
    assert f"gateway: listening on {gateway.url}" in said


def test_an_error_has_the_id_that_the_request_came_with(http: httpx.Client) -> None:
    for path in ("/v1/topics/none", "/v1/nothing", "/v1/topics/none/queues/0/messages?offset=0"):
        answer = http.get(path, headers={"X-Request-Id": "mine-1"})
        assert answer.status_code == 404
        assert (answer.json()["request_id"], answer.headers["x-request-id"]) == ("mine-1", "mine-1")
    wrong = http.put(LEVELS, json={"levels": 3}, headers={"X-Request-Id": "mine-2"})
    assert (wrong.status_code, wrong.json()["request_id"]) == (400, "mine-2")
    foreign = http.get("/v1/broker", headers={"X-Request-Id": "mine-3", "Origin": "http://evil.example"})
    assert (foreign.status_code, foreign.json()["request_id"]) == (403, "mine-3")


@pytest.mark.parametrize("given", [None, "", "a b", 'x","code":"y', "a" * 200])
def test_without_one_that_is_sane_it_gets_one_of_its_own(http: httpx.Client, given: str | None) -> None:
    headers = {} if given is None else {"X-Request-Id": given}
    answer = http.get("/v1/topics/none", headers=headers)
    made = answer.json()["request_id"]
    assert re.fullmatch(r"[0-9a-f]{16}", made)
    assert answer.headers["x-request-id"] == made
    assert http.get("/v1/topics/none", headers=headers).json()["request_id"] != made


def test_an_answer_that_is_none_of_an_error_says_none(http: httpx.Client) -> None:
    answer = http.get("/v1/broker", headers={"X-Request-Id": "mine"})
    assert (answer.status_code, "x-request-id" in answer.headers) == (200, False)


def test_requests_are_told_of_when_that_is_asked_for_and_their_secrets_are_not(
    gateway: GatewayProcess, http: httpx.Client, folder: Path
) -> None:
    http.put("/v1/topics/told", json={}).raise_for_status()
    changed = http.put(LEVELS, json={"levels": {"lakemq": "DEBUG"}})
    assert changed.json() == {"levels": {"lakemq": "DEBUG"}, "back_in_ms": {}, "jobs": []}
    secret, body = token_of(folder), "what nobody else may read"
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    headers = {"X-Request-Id": "asked-1", "traceparent": parent, "Authorization": f"Bearer {secret}"}
    sent = http.post("/v1/topics/told/messages", json={"messages": [{"body": body, "keys": [body]}]}, headers=headers)
    assert sent.status_code == 200
    pull = http.get("/v1/messages", params={"topic": "told", "key": body}, headers={"X-Request-Id": "asked-2"})
    assert body in pull.text
    wait_until(lambda: len(told(gateway, "asked-2")) == 1)
    (line,) = told(gateway, "asked-1")
    assert re.fullmatch(r"POST /v1/topics/told/messages: 200 after \d+\.\d ms", line["message"])
    assert (line["level"], line["user"], line["client"]) == ("DEBUG", ADMINISTRATOR, "127.0.0.1")
    assert line["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"
    unknown = http.post(f"/v1/transactions/{'secret-' * 3}", json={}, headers={"X-Request-Id": "asked-3"})
    assert unknown.is_client_error
    assert http.get("/v1/secret-place", headers={"X-Request-Id": "asked-4"}).status_code == 404
    wait_until(lambda: len(told(gateway, "asked-4")) == 1)
    assert told(gateway, "asked-3")[0]["message"].startswith("POST /v1/transactions/{transaction_id}: 4")
    written = "".join(gateway.log)
    assert "secret-" not in written
    assert secret not in written
    assert secret.rpartition("_")[2] not in written
    assert body not in written
    assert body.replace(" ", "+") not in written


def test_levels_go_back_after_their_time(gateway: GatewayProcess, http: httpx.Client) -> None:
    before = {"levels": {"lakemq": "INFO"}, "back_in_ms": {}, "jobs": []}
    assert http.get(LEVELS).json() == before
    changed = http.put(LEVELS, json={"levels": {TOLD: "DEBUG"}, "for_ms": 600_000}).json()
    assert changed["levels"] == {"lakemq": "INFO", TOLD: "DEBUG"}
    assert 0 < changed["back_in_ms"][TOLD] <= 600_000
    http.put(LEVELS, json={"levels": {TOLD: "DEBUG"}, "for_ms": 300}).raise_for_status()
    wait_until(lambda: any(line["message"] == f"the log levels of {TOLD} are restored" for line in lines(gateway)))
    assert http.get(LEVELS).json() == before


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"levels": {}},
        {"levels": {"aiohttp": "DEBUG"}},
        {"levels": {"lakemq.none": "DEBUG"}},
        {"levels": {"lakemq": "LOUD"}},
        {"levels": {"lakemq": 10}},
        {"levels": {"lakemq": "DEBUG"}, "for_ms": 0},
        {"levels": {"lakemq": "DEBUG"}, "for_ms": 10**12},
        {"levels": {"lakemq": "DEBUG"}, "more": 1},
        {"levels": {f"lakemq.x{number}": "DEBUG" for number in range(101)}},
    ],
)
def test_what_can_not_be_is_refused_and_changes_nothing(http: httpx.Client, body: dict[str, Any]) -> None:
    answer = http.put(LEVELS, json=body)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
    assert http.get(LEVELS).json()["levels"] == {"lakemq": "INFO"}


def test_only_who_may_change_the_cluster_does_and_it_is_audited(
    gateway: GatewayProcess, http: httpx.Client, folder: Path
) -> None:
    with ask_as(gateway) as nobody:
        assert nobody.get(LEVELS).status_code == nobody.put(LEVELS, json={"levels": {}}).status_code == 401
    with ask_as(gateway, token_of(folder)) as admin:
        token = make_user(admin, "reader", allow("Topic:*", "Pub", "Sub"))
    with ask_as(gateway, token) as reader:
        refused = reader.put(LEVELS, json={"levels": {"lakemq": "DEBUG"}}, headers={"X-Request-Id": "refused-1"})
        assert (refused.status_code, refused.json()["request_id"]) == (403, "refused-1")
    http.put(LEVELS, json={"levels": {"lakemq": None}}, headers={"X-Request-Id": "done-1"}).raise_for_status()

    def records() -> dict[str, dict[str, Any]]:
        pulled = http.get(f"/v1/topics/{AUDIT_TOPIC}/queues/0/messages", params={"offset": 0, "max": 1_000})
        bodies = [json.loads(each["body"]) for each in pulled.json()["messages"]] if pulled.status_code == 200 else []
        return {each["request_id"]: each for each in bodies if "request_id" in each}

    wait_until(lambda: {"refused-1", "done-1"} <= records().keys())
    found = records()
    assert (found["refused-1"]["user"], found["done-1"]["user"]) == ("reader", ADMINISTRATOR)
    assert found["done-1"]["what"] == f"PUT {LEVELS}"


def test_lines_of_text_begin_with_a_time_in_utc(tmp_path: Path) -> None:
    with start_gateway(tmp_path / "data", log__level="debug") as text, connect(text) as http:
        http.get("/v1/broker", headers={"X-Request-Id": "asked-1"}).raise_for_status()
        wait_until(lambda: any("request_id=asked-1" in line for line in list(text.log)))
        line = next(line for line in text.log if "request_id=asked-1" in line)
        assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z DEBUG lakemq\.web\.told: GET /v1/broker: 200", line)
