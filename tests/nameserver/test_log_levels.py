"""Levels of a name server's log, changed while it runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lakemq.testing.nameserver_process import start_nameserver
from tests.client.consuming import wait_until
from tests.nameserver.asking import connect

LEVELS = "/v1/log-levels"
TOKEN = "lmq_0123456789abcdef_0123456789abcdef0123456789abcdef0123456789a"
LIMITED = "lmq_fedcba9876543210_0123456789abcdef0123456789abcdef0123456789a"
WRONG: list[Any] = [
    b"x",
    b"[]",
    b"{}",
    {"levels": {}},
    {"levels": []},
    {"levels": {"lakemq": 1}},
    {"levels": {"aiohttp": "DEBUG"}},
    {"levels": {"lakemq": "DEBUG"}, "for_ms": "1"},
    {"levels": {"lakemq": "DEBUG"}, "for_ms": True},
    {"levels": {"lakemq": "DEBUG"}, "for_ms": -1},
    {"levels": {f"lakemq.x{number}": "DEBUG" for number in range(101)}},
    {"levels": {"lakemq": "DEBUG"}, "more": 1},
]


def test_requests_are_told_of_for_a_while_as_json() -> None:
    with start_nameserver(log__format="json") as server, connect(server) as http:
        before = http.get(LEVELS).json()
        assert before == {"levels": {"lakemq": "INFO"}, "back_in_ms": {}}
        for wrong in WRONG:
            content = wrong if isinstance(wrong, bytes) else json.dumps(wrong).encode()
            answer = http.put(LEVELS, content=content, headers={"content-type": "application/json"})
            assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")
            assert answer.headers["x-request-id"] == answer.json()["request_id"]
        changed = http.put(LEVELS, json={"levels": {"lakemq.web": "DEBUG"}, "for_ms": 600_000}).json()
        assert changed["levels"] == {"lakemq": "INFO", "lakemq.web": "DEBUG"}
        http.get("/v1/cluster", headers={"X-Request-Id": "asked-1"}).raise_for_status()
        http.put(LEVELS, json={"levels": {"lakemq.web": "DEBUG"}, "for_ms": 300}).raise_for_status()
        wait_until(lambda: http.get(LEVELS).json() == before)
        found = [json.loads(line) for line in list(server.log)]
        (line,) = [each for each in found if each.get("request_id") == "asked-1"]
        assert line["message"].startswith("GET /v1/cluster: 200 after")


@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_where_brokers_need_a_token_so_does_this(tmp_path: Path, method: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"{TOKEN}\nbroker-a = {LIMITED}\n")
    file.chmod(0o600)
    with start_nameserver(nameserver__token_file=file) as server, connect(server) as http:
        wanted = {"levels": {"lakemq": "INFO"}} if method == "PUT" else None
        assert http.request(method, LEVELS, json=wanted).status_code == 401
        allowed = http.request(method, LEVELS, headers={"Authorization": f"Bearer {TOKEN}"}, json=wanted)
        assert allowed.status_code == 200
        limited = http.request(method, LEVELS, headers={"Authorization": f"Bearer {LIMITED}"}, json=wanted)
        assert limited.status_code == 403  # it lets a broker register, and says nothing of the name server
