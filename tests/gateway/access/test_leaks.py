"""What could once be had without the right to it."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

from lakemq.model.names import AUDIT_TOPIC
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.access.asking import allow, ask_as, make_user, token_of
from tests.gateway.http_client import pull_all


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GatewayProcess, httpx.Client]]:
    data = tmp_path_factory.mktemp("leaks") / "data"
    with start_gateway(data, auth__required="true") as gateway, ask_as(gateway, token_of(data)) as admin:
        yield gateway, admin


@pytest.fixture
def gateway(guarded: tuple[GatewayProcess, httpx.Client]) -> GatewayProcess:
    return guarded[0]


@pytest.fixture
def admin(guarded: tuple[GatewayProcess, httpx.Client]) -> httpx.Client:
    return guarded[1]


@contextmanager
def acting(
    gateway: GatewayProcess, admin: httpx.Client, name: str, *policies: dict[str, Any]
) -> Generator[httpx.Client]:
    with ask_as(gateway, make_user(admin, name, *policies)) as user:
        yield user


def audited(admin: httpx.Client, user: str) -> list[tuple[str, str]]:
    """Of that user: tag and what, oldest first."""
    said = [(each["tag"], json.loads(each["body"])) for each in pull_all(admin, AUDIT_TOPIC)]
    return [(tag, each["what"]) for tag, each in said if each["user"] == user]


@pytest.mark.parametrize("left_out", ["Get", "Route", "Compact", "Erase"])
def test_only_the_jobs_say_where_clients_send_their_tokens(
    gateway: GatewayProcess, admin: httpx.Client, left_out: str
) -> None:
    actions = [each for each in ("Get", "Route", "Compact", "Erase") if each != left_out]
    attack = {"jobs": [{"name": f"no-{left_out.lower()}"}], "sql": "http://10.6.6.6:1"}
    with acting(gateway, admin, f"no-{left_out}", allow("Cluster:*", *actions)) as user:
        answer = user.put("/v1/jobs", json=attack)
        assert answer.status_code == 200, "its heartbeat counts"
        assert f"it takes {left_out} on Cluster:*" in answer.json()["sql_refused"]
    described = admin.get("/v1/broker").json()
    assert described["sql"] is None
    assert described["jobs"][f"no-{left_out.lower()}"]["alive"]
    assert audited(admin, f"no-{left_out}") == [("refused", f"{left_out} on Cluster:*")]


def test_where_the_jobs_answer_sql_is_audited_once(gateway: GatewayProcess, admin: httpx.Client) -> None:
    with acting(gateway, admin, "jobs", allow("Cluster:*", "Get", "Route", "Compact", "Erase")) as jobs:
        for address in ("http://10.0.0.1:1", "http://10.0.0.2:1", "http://10.0.0.1:1/"):
            assert "sql_refused" not in jobs.put("/v1/jobs", json={"jobs": [], "sql": address}).json()
        assert admin.get("/v1/broker").json()["sql"] == "http://10.0.0.1:1"
    said = [("allowed", f"PUT /v1/jobs sql=http://10.0.0.{each}:1") for each in (1, 2)]
    assert audited(admin, "jobs") == said
