"""Who is connected, as the gateway shows it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.gateway.groups import clients as module
from lakemq.gateway.groups.clients import Asker, Clients, Status
from lakemq.model.access import ADMINISTRATOR
from lakemq.model.names import AUDIT_TOPIC
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.access.asking import allow, ask_as, make_user, token_of
from tests.gateway.groups.asking import heartbeat, members
from tests.gateway.http_client import connect, is_problem, produce, pull_all, put_topic
from tests.gateway.receive.asking import receive

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
        rosa.post("/v1/groups/billing/receive", json={"topic": "secret", "wait_ms": 0})
        assert len(listed(admin, "/v1/groups/billing/clients")) == 1, "who may not receive doesn't"
        produce(admin, "secret", "x")
        receive(admin, "billing", "secret")
        receiver = listed(admin, "/v1/groups/billing/clients")[1]
        assert (receiver["user"], receiver["address"]) == (ADMINISTRATOR, "127.0.0.1")
        assert listed(rosa, "/v1/groups/billing/clients")[1]["topics"] == []
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
        now_s += module.EXPIRY_S - 1.5
        assert [name for name, _ in clients.producers("g")] == ["d"]
        assert list(clients.producers("h")) == []

    asyncio.run(test())


def test_one_who_makes_up_clients_pushes_nobody_else_s_out_of_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        monkeypatch.setattr(module, "PRODUCERS_MAX", 100)
        clients = Clients()
        for number in range(5):
            clients.producer_said(f"real-{number}", "g", Asker("rosa", "10.0.0.1"), NOTHING, 7)
            clients.producer_said(f"other-{number}", "g", Asker("", f"10.0.1.{number}"), NOTHING, 7)
        for number in range(1_000):
            # However many addresses of its network of IPv6 it uses, and a user from wherever.
            asker = Asker("", f"2001:db8::{number:x}") if number % 2 else Asker("mallory", f"10.1.1.{number}")
            clients.producer_said(f"made-up-{number}", "g", asker, NOTHING, 7)
        found = [name for name, _ in clients.producers()]
        assert len(found) == 100
        assert sum(not name.startswith("made-up") for name in found) == 10

    asyncio.run(test())


def test_who_receives_without_being_a_member_is_listed_and_marked_as_such(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"
    produce(http, topic, "x")
    heartbeat(http, group, "a", topic)
    receive(http, group, topic)
    receive(http, group, topic)
    member, receiver = listed(http, f"/v1/groups/{group}/clients")
    assert (member["kind"], member["client_id"]) == ("consumer", "a")
    said = {"kind": "receiver", "client_id": None, "group": group, "topics": [topic]}
    said |= {"paused": None, "language": None, "queues": [], "queue_count": None}
    assert {name: receiver[name] for name in said} == said
    assert 0 <= receiver["heartbeat_age_ms"] < 60_000
    assert [each["kind"] for each in listed(http, "/v1/clients") if each["group"] == group] == ["consumer", "receiver"]
    refused = http.post(f"/v1/groups/{group}/receive", json={"topic": f"none-{topic}", "wait_ms": 0})
    assert is_problem(refused, 404, "topic_not_found")
    assert receiver["topics"] == listed(http, f"/v1/groups/{group}/clients")[1]["topics"]


def test_who_received_for_a_deleted_group_is_not_shown_to_the_next_owner_of_its_name(
    http: httpx.Client, topic: str
) -> None:
    put_topic(http, topic)
    group, other = f"g-{topic}", f"h-{topic}"
    for each in (group, other):
        assert http.put(f"/v1/groups/{each}", json={"consume_enabled": True}).is_success
        receive(http, each, topic)
    assert http.delete(f"/v1/groups/{group}").status_code == 200
    assert http.put(f"/v1/groups/{group}", json={"consume_enabled": True}).is_success
    assert listed(http, f"/v1/groups/{group}/clients") == []
    assert len(listed(http, f"/v1/groups/{other}/clients")) == 1
    receive(http, group, topic)
    assert len(listed(http, f"/v1/groups/{group}/clients")) == 1


def test_receivers_expire_and_their_topics_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        now_s = 1_000.0
        monkeypatch.setattr(module, "_now_s", lambda: now_s)
        monkeypatch.setattr(module, "RECEIVERS_MAX", 3)
        clients = Clients()
        for number in range(2 * module.TOPICS_MAX):
            clients.received("g", f"t{number}", Asker("u", "1.1.1.1"), 7)
        (found,) = clients.receivers("g")
        assert found.status.topics == tuple(f"t{number}" for number in range(module.TOPICS_MAX, 2 * module.TOPICS_MAX))
        now_s += module.EXPIRY_S / 2
        for address in "23456":
            clients.received("h", "t", Asker("v", address), 7)
        assert [each.asker.address for each in clients.receivers()] == ["1.1.1.1", "5", "6"]
        now_s += module.EXPIRY_S / 2 + 1
        assert [each.group for each in clients.receivers()] == ["h", "h"]

    asyncio.run(test())


def pause(http: httpx.Client, group: str, client_id: str, enabled: bool) -> httpx.Response:
    return http.put(f"/v1/groups/{group}/clients/{client_id}", json={"consume_enabled": enabled})


def test_one_member_is_paused_and_resumed_and_all_hear_of_it(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"
    heartbeat(http, group, "a", topic)
    before = heartbeat(http, group, "b", topic)
    assert before["paused"] == []
    done = pause(http, group, "b", False).json()
    assert done == {"group": group, "client_id": "b", "consume_enabled": False, "generation": before["generation"] + 1}
    heard = members(http, group, generation=before["generation"], wait_ms=50_000)
    assert (heard["paused"], heard["consume_enabled"]) == (["b"], True)
    shown = {each["client_id"]: each["consume_enabled"] for each in listed(http, f"/v1/groups/{group}/clients")}
    assert shown == {"a": True, "b": False}
    end = http.get("/v1/broker").json()["max_position"]
    assert pause(http, group, "b", False).json() == done, "once more changes nothing"
    assert http.get("/v1/broker").json()["max_position"] == end
    assert heartbeat(http, group, "b", f"more-{topic}")["paused"] == ["b"], "it is paused whatever it subscribes to"
    assert pause(http, group, "b", True).json()["consume_enabled"] is True
    assert members(http, group)["paused"] == []
    pause(http, group, "a", False)
    http.delete(f"/v1/groups/{group}/members/a").raise_for_status()
    assert heartbeat(http, group, "a", topic)["paused"] == [], "it ends with the membership"
    assert is_problem(pause(http, group, "nobody", False), 404, "client_not_found")
    assert is_problem(pause(http, f"none-{group}", "a", False), 404, "group_not_found")
    assert is_problem(http.put(f"/v1/groups/{group}/clients/a", json={}), 400, "invalid_request")


def test_a_paused_member_is_so_after_a_kill_and_where_the_log_began_anew(tmp_path: Path) -> None:
    with start_gateway(tmp_path) as gateway, connect(gateway) as http:
        heartbeat(http, "g", "a", "t")
        heartbeat(http, "g", "b", "t")
        pause(http, "g", "a", False).raise_for_status()
        gateway.kill()
    for _ in range(2):  # from the records, then from what is kept of them at a clean end
        with start_gateway(tmp_path) as gateway, connect(gateway) as http:
            assert members(http, "g")["paused"] == ["a"]


def test_to_pause_a_member_takes_a_right_and_is_written_down(secured: tuple[GatewayProcess, httpx.Client]) -> None:
    gateway, admin = secured
    heartbeat(admin, "reports", "a")
    may = make_user(admin, "olga", allow("Group:reports", "Update"))
    may_not = make_user(admin, "peter", allow("Group:reports", "Sub", "Get"))
    with ask_as(gateway, may) as olga, ask_as(gateway, may_not) as peter:
        assert is_problem(pause(peter, "reports", "a", False), 403, "forbidden")
        pause(olga, "reports", "a", False).raise_for_status()
    noted = [(each["tag"], json.loads(each["body"])) for each in pull_all(admin, AUDIT_TOPIC)]
    assert ("allowed", "PUT /v1/groups/reports/clients/a") in [(tag, each["what"]) for tag, each in noted]


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
        now_s += module.EXPIRY_S + 1
        clients.member_left("g", "m")
        for name in ("x", "y"):
            clients.producer_said(name, "g", asker, some, 7)
        assert named() == ["x", "y"], "what the others had is free, as they have left or expired"

    asyncio.run(test())
