"""Who did what is in the log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.model.access import ADMINISTRATOR
from lakemq.model.names import ACCESS_TOPIC, AUDIT_TOPIC
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.access.asking import allow, ask_as, make_user, token_of
from tests.gateway.http_client import is_problem, pull, pull_all
from tests.gateway.routing.asking import wait_until

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GatewayProcess, httpx.Client]]:
    data = tmp_path_factory.mktemp("audit") / "data"
    with start_gateway(data, auth__required="true") as gateway, ask_as(gateway, token_of(data)) as admin:
        yield gateway, admin


def records(admin: httpx.Client) -> list[tuple[str, dict[str, Any]]]:
    """All records: tag and content."""
    messages = pull(admin, AUDIT_TOPIC, 0, 0, max=1_000)["messages"]
    return [(each["tag"], json.loads(each["body"])) for each in messages]


def test_changes_refusals_and_logins_of_administrators_are_there(audited: tuple[GatewayProcess, httpx.Client]) -> None:
    gateway, admin = audited
    token = make_user(admin, "olga", allow("Topic:o*", "Create", "Pub"))
    with ask_as(gateway, token) as olga, ask_as(gateway) as nobody:
        assert olga.put("/v1/topics/orders").status_code == 201
        for _ in range(5):
            assert is_problem(olga.delete("/v1/topics/orders"), 403, "forbidden")
            assert is_problem(nobody.delete("/v1/topics/orders"), 401, "unauthenticated")
        assert is_problem(olga.put("/v1/topics/payments"), 403, "forbidden")
        assert olga.post("/v1/topics/orders/messages", json={"messages": [{"body": "x"}]}).is_success
    found = records(admin)
    assert {tag for tag, _ in found} == {"allowed", "refused", "login"}
    who = [(tag, each["user"], each["what"]) for tag, each in found]
    assert who.count(("allowed", "olga", "PUT /v1/topics/orders")) == 1
    assert ("allowed", ADMINISTRATOR, "PUT /v1/users/olga/policies") in who
    assert who.count(("refused", "olga", "DELETE /v1/topics/orders")) == 1
    assert ("refused", "olga", "Create on Topic:payments") in who
    assert ("allowed", "olga", "PUT /v1/topics/payments") not in who
    assert who.count(("login", ADMINISTRATOR, "")) == 1
    assert len([each for each in who if each[:2] == ("refused", "")]) == 1
    assert not [each for each in who if each[0] == "allowed" and "messages" in each[2]], "messages are no changes"
    assert all(each["source"] == "127.0.0.1" for _, each in found)
    assert token not in str(found)


def test_an_administrator_who_goes_on_asking_is_told_each_hour(tmp_path: Path) -> None:
    """It was told once, as whose token was looked up isn't looked up again."""
    clock, data = tmp_path / "clock", tmp_path / "data"
    clock.write_text(f"{0:20}")
    settings = {"auth__required": "true", "routing__clock_confirm_ms": 0, "storage__clock_confirm_ms": 0}
    with start_gateway(data, clock, **settings) as gateway, ask_as(gateway, token_of(data)) as admin:
        for hours in (1, 2, 3):
            wait_until(lambda hours=hours: [tag for tag, _ in records(admin)].count("login") == hours)
            with clock.open("r+") as file:
                file.write(f"{hours * (HOUR_MS + 2_000):20}")


def test_a_change_has_its_record_before_it(audited: tuple[GatewayProcess, httpx.Client]) -> None:
    _, admin = audited
    assert admin.put("/v1/users/peter").status_code == 201
    (changed,) = [each for each in pull_all(admin, ACCESS_TOPIC) if b"peter" in each["body"].encode()]
    noted = [each for each in pull_all(admin, AUDIT_TOPIC) if "/v1/users/peter" in each["body"]]
    assert noted[0]["position"] < changed["position"]


def test_it_is_read_by_administrators_and_written_by_nobody(audited: tuple[GatewayProcess, httpx.Client]) -> None:
    gateway, admin = audited
    token = make_user(admin, "quinn", allow("Topic:*", "Pub", "Sub", "Get", "Delete", "Update"))
    with ask_as(gateway, token) as quinn:
        path = f"/v1/topics/{AUDIT_TOPIC}"
        assert is_problem(quinn.get(f"{path}/queues/0/messages", params={"offset": 0}), 403, "forbidden")
        written = quinn.post(f"{path}/messages", json={"messages": [{"body": "x"}]})
        assert is_problem(written, 403, "read_only_topic")
        assert is_problem(admin.delete(path), 403, "read_only_topic")


def test_what_was_only_counted_is_written_as_the_broker_stops(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with start_gateway(data, auth__required="true") as gateway, ask_as(gateway) as nobody:
        for _ in range(5):
            assert is_problem(nobody.get("/v1/topics"), 401, "unauthenticated")
        assert gateway.stop() == 0
    with start_gateway(data, auth__required="true") as gateway, ask_as(gateway, token_of(data)) as admin:
        assert [each["times"] for tag, each in records(admin) if tag == "refused"] == [1, 4]


def test_who_needs_no_token_is_not_written_down(tmp_path: Path) -> None:
    with start_gateway(tmp_path / "data") as gateway, ask_as(gateway) as nobody:
        assert nobody.put("/v1/topics/orders").status_code == 201
        assert is_problem(nobody.get("/v1/sinks"), 401, "unauthenticated")
        with ask_as(gateway, token_of(tmp_path / "data")) as admin:
            assert admin.get(f"/v1/topics/{AUDIT_TOPIC}").status_code == 404
