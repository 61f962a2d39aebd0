"""Who is connected, as the gateway shows it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.gateway.groups import clients as module
from lakemq.gateway.groups.clients import Asker, Clients, Status
from lakemq.model.access import ADMINISTRATOR
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.access.asking import allow, ask_as, make_user, token_of
from tests.gateway.groups.asking import heartbeat
from tests.gateway.http_client import connect, is_problem

STATUS = {
    "language": "python",
    "version": "9.9",
    "queues": [{"topic": "t", "queue_id": 3}],
    "queue_count": 7,
    "paused": True,
    "buffered": 12,
    "stuck": 1,
}
NOTHING = Status(None, None, (), (), 0, False, 0, 0)


def listed(http: httpx.Client, path: str) -> list[dict[str, Any]]:
    """The clients that a route lists."""
    response = http.get(path)
    assert response.status_code == 200, response.text
    return response.json()["clients"]


def test_a_member_is_shown_as_it_says_it_is_until_it_leaves(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"
    before = heartbeat(http, group, "a", topic, client=STATUS)
    heartbeat(http, group, "b", topic)
    first, second = listed(http, f"/v1/groups/{group}/clients")
    assert {name: first[name] for name in STATUS} == STATUS
    assert (first["client_id"], first["kind"], first["group"]) == ("a", "consumer", group)
    assert (second["client_id"], second["language"], second["paused"], second["queues"]) == ("b", None, False, [])
    assert 0 <= first["heartbeat_age_ms"] < 60_000
    assert first["since_ms"] <= second["since_ms"]
    # What it says of itself is no part of its membership: nothing moves, and nothing is written.
    end = http.get("/v1/broker").json()["max_position"]
    again = heartbeat(http, group, "a", topic, client={**STATUS, "paused": False, "buffered": 0})
    assert again["generation"] == before["generation"] + 1
    assert http.get("/v1/broker").json()["max_position"] == end
    assert listed(http, f"/v1/groups/{group}/clients")[0]["since_ms"] == first["since_ms"]
    assert {each["client_id"] for each in listed(http, "/v1/clients") if each["group"] == group} == {"a", "b"}
    http.delete(f"/v1/groups/{group}/members/a").raise_for_status()
    assert [each["client_id"] for each in listed(http, f"/v1/groups/{group}/clients")] == ["b"]
    assert is_problem(http.get(f"/v1/groups/nobody-{topic}/clients"), 404, "group_not_found")


def test_a_producer_is_shown_until_it_says_that_it_ends(http: httpx.Client, topic: str) -> None:
    group, client_id = f"p-{topic}", f"c-{topic}"
    body = {"language": "python", "topics": [topic], "producer_group": group, "buffered": 5}
    http.put(f"/v1/clients/{client_id}", json=body).raise_for_status()
    http.put(f"/v1/clients/other-{topic}", json={}).raise_for_status()
    (shown,) = listed(http, f"/v1/producer-groups/{group}/clients")
    assert (shown["kind"], shown["topics"], shown["group"], shown["buffered"]) == ("producer", [topic], group, 5)
    everybody = {each["client_id"]: each["group"] for each in listed(http, "/v1/clients")}
    assert (everybody[client_id], everybody[f"other-{topic}"]) == (group, None)
    assert http.delete(f"/v1/clients/{client_id}").json()["deleted"] is True
    assert http.delete(f"/v1/clients/{client_id}").json()["deleted"] is False
    assert listed(http, f"/v1/producer-groups/{group}/clients") == []


def test_after_a_restart_members_are_there_and_what_they_say_is_heard_again(tmp_path: Path) -> None:
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        heartbeat(http, "g", "a", "t", client=STATUS)
        gateway.kill()
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        (shown,) = listed(http, "/v1/groups/g/clients")
        assert (shown["client_id"], shown["version"], shown["paused"], shown["queues"]) == ("a", None, None, [])
        heartbeat(http, "g", "a", "t", client=STATUS)
        assert listed(http, "/v1/groups/g/clients")[0]["version"] == "9.9"


@pytest.mark.parametrize(
    "body",
    [
        {"language": "x" * 65},
        {"topics": ["t"] * 21},
        {"queues": [{"topic": "t", "queue_id": 0}] * 101},
        {"buffered": -1},
        {"paused": "yes"},
        {"token": "lmq_x"},
        {"producer_group": "no group!"},
        [],
    ],
)
def test_what_a_client_says_is_bounded(http: httpx.Client, topic: str, body: Any) -> None:
    assert is_problem(http.put(f"/v1/clients/c-{topic}", json=body), 400, "invalid_request")
    assert is_problem(http.put(f"/v1/clients/{'c' * 257}", json={}), 400, "invalid_request")
    assert not [each for each in listed(http, "/v1/clients") if each["client_id"] == f"c-{topic}"]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Any:
    data = tmp_path_factory.mktemp("clients") / "data"
    with start_gateway(data, auth__required="true") as gateway, ask_as(gateway, token_of(data)) as admin:
        yield gateway, admin


def test_users_and_addresses_are_shown_to_administrators_alone(secured: tuple[GatewayProcess, httpx.Client]) -> None:
    gateway, admin = secured
    token = make_user(admin, "rosa", allow("Group:billing", "Sub"), allow("Group:invoices", "Pub"))
    with ask_as(gateway, token) as rosa:
        heartbeat(rosa, "billing", "a", client=STATUS | {"topics": ["secret"]})
        rosa.put("/v1/clients/p", json={"producer_group": "invoices"}).raise_for_status()
        for path in ("/v1/groups/billing/clients", "/v1/producer-groups/invoices/clients"):
            (mine,) = listed(rosa, path)
            assert not mine.keys() & {"user", "address"}
            assert (mine["topics"], mine["queues"]) == ([], [])  # she may read none of these
            (whole,) = listed(admin, path)
            assert (whole["user"], whole["address"]) == ("rosa", "127.0.0.1")
            assert "lmq_" not in str(whole)
        (whole,) = listed(admin, "/v1/groups/billing/clients")
        assert (whole["topics"], whole["queues"]) == (["secret"], STATUS["queues"])
        assert is_problem(rosa.get("/v1/clients"), 403, "forbidden")
        assert is_problem(rosa.get("/v1/groups/others/clients"), 403, "forbidden")
        assert is_problem(rosa.get("/v1/producer-groups/others/clients"), 403, "forbidden")
        assert is_problem(rosa.put("/v1/clients/p", json={"producer_group": "others"}), 403, "forbidden")
        assert {each["client_id"] for each in listed(admin, "/v1/clients")} >= {"a", "p"}


def test_nobody_speaks_for_another_s_producer(secured: tuple[GatewayProcess, httpx.Client]) -> None:
    gateway, admin = secured
    token = make_user(admin, "sven", allow("Topic:*", "Pub"))
    admin.put("/v1/clients/same", json={"version": "1"}).raise_for_status()
    with ask_as(gateway, token) as sven:
        assert sven.delete("/v1/clients/same").json()["deleted"] is False
        sven.put("/v1/clients/same", json={"version": "2"}).raise_for_status()
        found = {each["user"]: each["version"] for each in listed(admin, "/v1/clients") if each["client_id"] == "same"}
        assert found == {ADMINISTRATOR: "1", "sven": "2"}


def test_producers_expire_and_of_too_many_those_go_that_were_not_heard_of(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        now_s = 1_000.0
        monkeypatch.setattr(module, "_now_s", lambda: now_s)
        monkeypatch.setattr(module, "PRODUCERS_MAX", 3)
        clients, asker = Clients(), Asker("u", None)
        for name in ("a", "b", "c", "a", "d"):
            clients.producer_said(name, "g", asker, NOTHING, 7)
            now_s += 1
        assert [name for name, _ in clients.producers()] == ["c", "a", "d"]
        now_s += module.PRODUCER_EXPIRY_S - 1.5
        assert [name for name, _ in clients.producers("g")] == ["d"]
        assert list(clients.producers("h")) == []

    asyncio.run(test())


def test_of_too_many_queues_only_their_number_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr(module, "NAMED_MAX", 3 * (module.NAME_CHARACTERS + 1))
        clients, asker = Clients(), Asker("", None)
        some = NOTHING._replace(queues=(("t", 0), ("t", 1)), queue_count=2)

        def kept() -> list[int]:
            found = [clients.member("g", name) for name in ("a", "b")]
            return [len(each.status.queues) for each in found if each is not None]

        for name in ("a", "b", "a", "b"):
            clients.member_said("g", name, asker, some, 7)
        assert kept() == [2, 0]
        clients.member_left("g", "a")
        clients.member_left("g", "a")
        clients.member_said("g", "b", asker, some, 7)
        assert kept() == [2]

    asyncio.run(test())


def test_the_topics_that_all_clients_name_have_a_bound_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand producers and as many members as there may be, each with twenty long names, were 300 MB."""

    async def test() -> None:
        now_s = 1_000.0
        monkeypatch.setattr(module, "_now_s", lambda: now_s)
        monkeypatch.setattr(module, "PRODUCERS_MAX", 3)
        monkeypatch.setattr(module, "NAMED_MAX", 2 * (module.NAME_CHARACTERS + 9))
        clients, asker, some = Clients(), Asker("", None), NOTHING._replace(topics=("nine-long",))

        def named() -> list[str]:
            return [name for name, heard in clients.producers() if heard.status.topics]

        clients.member_said("g", "m", asker, some, 7)
        for name in ("a", "b", "a", "b"):
            clients.producer_said(name, "g", asker, some, 7)
        assert named() == ["a"]
        assert clients.producer_left("a", asker)
        clients.producer_said("b", "g", asker, some, 7)
        assert named() == ["b"]
        for name in ("c", "d", "e", "f"):  # then b gives way
            clients.producer_said(name, "g", asker, some, 7)
        assert named() == ["f"]
        now_s += module.PRODUCER_EXPIRY_S + 1
        clients.member_left("g", "m")
        for name in ("x", "y"):
            clients.producer_said(name, "g", asker, some, 7)
        assert named() == ["x", "y"], "what the others had is free, as they have left or expired"

    asyncio.run(test())
