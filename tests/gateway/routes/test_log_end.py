"""`GET /v1/log/end`: how long it is held."""

from __future__ import annotations

from pathlib import Path

from lakemq.testing import start_gateway
from tests.gateway.http_client import connect, is_problem, produce


def test_it_is_held_no_longer_than_the_broker_lets_anybody_wait(tmp_path: Path) -> None:
    """Jobs elsewhere don't know that setting, so what is above it is no error: they ask again."""
    with start_gateway(tmp_path, gateway__wait_ms_max=50) as gateway, connect(gateway) as http:
        produce(http, "t", "m")
        end = http.get("/v1/log/end").json()["end_position"]
        held = http.get("/v1/log/end", params={"from": end, "wait_ms": 600_000})
        assert (held.status_code, held.json()["end_position"]) == (200, end)
        assert is_problem(http.get("/v1/log/end", params={"wait_ms": 600_001}), 400, "invalid_request")
