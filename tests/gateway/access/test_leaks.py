"""What could once be had without the right to it."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pyarrow as pa
import pytest

from lakemq.gateway.routing.jobs import ALIVE_MS
from lakemq.model.names import AUDIT_TOPIC, HALF_TOPIC
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.access.asking import allow, ask_as, make_user, token_of
from tests.gateway.http_client import is_problem, pull_all
from tests.gateway.routing.asking import decide, position, wait_until
from tests.standstill import within

HALVES_BYTES = 2_000
"""So much of halves is kept in memory."""
ALIVE_S = ALIVE_MS / 1000


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GatewayProcess, httpx.Client]]:
    data = tmp_path_factory.mktemp("leaks") / "data"
    with (
        start_gateway(data, auth__required="true", transactions__halves_bytes_max=HALVES_BYTES) as gateway,
        ask_as(gateway, token_of(data)) as admin,
    ):
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

        def beat_and_look() -> dict[str, Any]:
            answer = user.put("/v1/jobs", json=attack)
            assert answer.status_code == 200, "its heartbeat counts"
            assert f"it takes {left_out} on Cluster:*" in answer.json()["sql_refused"]
            return admin.get("/v1/broker").json()

        described = within(ALIVE_S, beat_and_look)
    assert described["sql"] != attack["sql"]
    assert described["jobs"][f"no-{left_out.lower()}"]["alive"]
    assert audited(admin, f"no-{left_out}") == [("refused", f"{left_out} on Cluster:*")]


def test_where_the_jobs_answer_sql_is_audited_once(gateway: GatewayProcess, admin: httpx.Client) -> None:
    with acting(gateway, admin, "jobs", allow("Cluster:*", "Get", "Route", "Compact", "Erase")) as jobs:

        def beat_and_look() -> str:
            for address in ("http://10.0.0.1:1", "http://10.0.0.2:1", "http://10.0.0.1:1/"):
                assert "sql_refused" not in jobs.put("/v1/jobs", json={"jobs": [], "sql": address}).json()
            return admin.get("/v1/broker").json()["sql"]

        assert within(ALIVE_S, beat_and_look) == "http://10.0.0.1:1"
    said = [("allowed", f"PUT /v1/jobs sql=http://10.0.0.{each}:1") for each in (1, 2)]
    assert audited(admin, "jobs") == said


def test_who_knows_a_transactions_id_needs_pub_to_end_it(gateway: GatewayProcess, admin: httpx.Client) -> None:
    """Whoever reads the log as a follower does has the key of all ids. The last two of each four bodies are kept in
    memory for their commit, the others are read again."""
    assert admin.put("/v1/topics/payments", json={"queues": 1}).status_code == 201
    group, path = {"producer_group": "pg"}, "/v1/topics/payments/transactions"

    def begin() -> list[str]:
        bodies = [{"body": "pay"}, {"body": "pay"}, {"body": "x" * 900}]
        begun = admin.post(path, params=group, json={"messages": bodies}).json()["transactions"]
        raw = admin.post(path, params=group, content=b"raw", headers={"Content-Type": "application/octet-stream"})
        return [each["transaction_id"] for each in [*begun, *raw.json()["transactions"]]]

    ids = begin()
    with acting(gateway, admin, "reader", allow("Cluster:*", "Get"), allow("Topic:other", "Pub")) as reader:
        for each in ids:
            for resolution in ("commit", "rollback", "unknown"):
                answer = reader.post(f"/v1/transactions/{each}", json={**group, "resolution": resolution})
                assert is_problem(answer, 403, "forbidden"), (each, resolution)
                assert "payments" not in answer.text
        many = [{"transaction_id": each, "resolution": "commit"} for each in ids]
        answer = reader.post("/v1/transactions", json={**group, "resolutions": many})
        assert [each["status"] for each in answer.json()["results"]] == ["forbidden"] * len(ids)
    with acting(gateway, admin, "payer", allow("Topic:payments", "Pub")) as payer:
        for each in ids:
            answer = payer.post(f"/v1/transactions/{each}", json={**group, "resolution": "commit"})
            assert answer.status_code == 200, answer.text
        wrong = f"{ids[0].rpartition('-')[0][:-1]}999999-0000000000000000"
        many = [{"transaction_id": each, "resolution": "rollback"} for each in [*begin(), wrong]]
        answer = payer.post("/v1/transactions", json={**group, "resolutions": many})
        assert [each["status"] for each in answer.json()["results"]] == ["ok"] * 4 + ["transaction_not_found"]
    assert len(pull_all(admin, "payments")) == len(ids)


def test_what_was_deleted_with_its_topic_is_the_next_owners_neither(
    gateway: GatewayProcess, admin: httpx.Client
) -> None:
    """Nor the dead letters of a deleted group. Who reads all of the log, as the lake does, still gets the rows."""
    topic, dead = "/v1/topics/tenant", "%DLQ%owned"
    assert admin.put(topic, json={"queues": 1}).status_code == 201

    def produce(client: httpx.Client, body: str) -> str:
        return client.post(f"{topic}/messages", json={"messages": [{"body": body}]}).json()["messages"][0]["message_id"]

    def nack(client: httpx.Client, each: str) -> httpx.Response:
        return client.post(
            "/v1/groups/owned/nacks", json={"messages": [{"message_id": each, "max_reconsume_times": 0}]}
        )

    def letters(client: httpx.Client) -> list[dict[str, Any]]:
        return pull_all(client, "%25DLQ%25owned")

    old = produce(admin, "secret of the first owner")
    begin = admin.get(f"/v1/messages/{old}").json()["position"]
    assert nack(admin, old).json()["messages"][0]["status"] == "ok"
    wait_until(lambda: len(letters(admin)) == 1)
    letter = letters(admin)[0]["message_id"]
    asked = {"where": "body = 'secret of the first owner'", "dry_run": True}
    redrive = admin.post("/v1/groups/owned/dead-letters/redrive", json=asked).json()["redrive_id"]
    assert admin.delete(topic).is_success
    shown = admin.get(f"/v1/messages/{letter}/history").json()["message"]
    assert shown["message_id"] == letter, "it is the group's still, and of the message no more is told"
    assert admin.delete("/v1/groups/owned").is_success

    def rows(client: httpx.Client, **asked: str) -> list[bytes]:
        params = {"from": begin, "to": 1_000_000, "columns": "body", **asked}
        answer = client.get("/v1/log/messages", params=params)
        assert answer.status_code == 200, answer.text
        return pa.ipc.open_stream(answer.content).read_all().column("body").to_pylist()

    rights = allow("Topic:tenant", "Create", "Pub", "Sub"), allow("Group:owned", "Sub", "Update")
    with acting(gateway, admin, "second", *rights) as second:
        assert is_problem(second.get(f"/v1/redrives/{redrive}"), 404, "redrive_not_found")
        assert rows(second, topics=f"tenant,{dead}") == []
        assert second.put(topic, json={"queues": 1}).status_code == 201
        new = produce(second, "new")
        assert rows(second, topics=f"tenant,{dead}") == [b"new"]
        assert rows(second, pattern="tenant|%.*")[0] == b"new"
        assert is_problem(nack(second, old), 404, "message_not_found")
        for each in (old, letter):
            assert is_problem(second.get(f"/v1/messages/{each}/history"), 404, "message_not_found")
        assert second.get(f"/v1/messages/{new}/history").status_code == 200
        assert nack(second, new).json()["messages"][0]["status"] == "ok"
        wait_until(lambda: [each["body"] for each in letters(second)] == ["new"])
        assert rows(second, topics=dead) == [b"new"]
        assert is_problem(second.get(f"/v1/redrives/{redrive}"), 404, "redrive_not_found")
        own = second.post("/v1/groups/owned/dead-letters/redrive", json={"dry_run": True}).json()["redrive_id"]
        assert second.get(f"/v1/redrives/{own}").json()["matched"] == 1
    assert admin.get(f"/v1/redrives/{redrive}").json()["where"] == asked["where"]
    assert b"secret of the first owner" in rows(admin)


def test_what_waited_for_a_deleted_topic_is_the_next_owners_neither(
    gateway: GatewayProcess, admin: httpx.Client
) -> None:
    """Whether he looks for it before he makes his, or after: ids can be counted through."""
    topic, group = "/v1/topics/estate", {"producer_group": "pg"}
    assert admin.put(topic, json={"queues": 1}).status_code == 201

    def schedule(client: httpx.Client) -> str:
        said = {"messages": [{"body": "secret", "keys": ["k"], "delay_ms": 3_600_000}]}
        return client.post(f"{topic}/messages", json=said).json()["messages"][0]["message_id"]

    def begin(client: httpx.Client) -> str:
        said = {"messages": [{"body": "secret"}]}
        return client.post(f"{topic}/transactions", params=group, json=said).json()["transactions"][0]["message_id"]

    def listed(client: httpx.Client) -> set[str]:
        waiting = [client.get("/v1/scheduled", params={"topic": "estate", **more}).json()["messages"] for more in looks]
        halves = client.get("/v1/transactions", params={"topic": "estate"}).json()["transactions"]
        return {each["message_id"] for found in waiting for each in found} | {each["half_id"] for each in halves}

    looks = {}, {"where": "body LIKE 'sec%'"}, {"key": "k"}
    scheduled, half = schedule(admin), begin(admin)
    assert admin.delete(topic).is_success
    rights = allow("Topic:estate", "Create", "Pub", "Sub", "Get"), allow("Group:pg", "Pub")
    with acting(gateway, admin, "heir", *rights) as heir:
        for _ in range(2):
            paths = [f"/v1/messages/{scheduled}", *(f"/v1/messages/{each}/history" for each in (scheduled, half))]
            for path in paths:
                answer = heir.get(path)
                assert is_problem(answer, 404, "message_not_found"), path
                assert "secret" not in answer.text
            assert listed(heir) == set()
            assert listed(admin) == {scheduled, half}, "who reads all of the log anyway looks after what waits"
            assert heir.put(topic, params={"auto": "true"}).is_success
        own = schedule(heir), begin(heir)
        assert listed(heir) == set(own)
        assert heir.get(f"/v1/messages/{own[0]}").json()["body"] == "secret"
        assert heir.get(f"/v1/messages/{own[0]}/history").status_code == 200
        decide(admin, "check", [position(half), position(own[1])])  # which writes them anew
        anew = {each.get("transaction_id"): each["message_id"] for each in pull_all(admin, HALF_TOPIC)}
        assert is_problem(heir.get(f"/v1/messages/{anew[half]}/history"), 404, "message_not_found")
        assert heir.get(f"/v1/messages/{anew[own[1]]}/history").status_code == 200
    for each in (scheduled, anew[half]):
        assert admin.get(f"/v1/messages/{each}/history").status_code == 200


def test_what_waited_for_a_deleted_topic_is_not_ended_by_the_next_owner(
    gateway: GatewayProcess, admin: httpx.Client
) -> None:
    topic = "/v1/topics/bequest"
    assert admin.put(topic, json={"queues": 1}).status_code == 201

    def send(client: httpx.Client) -> tuple[str, str, str]:
        said = {"messages": [{"body": "x", "delay_ms": 3_600_000}, {"body": "x"}]}
        sent = client.post(f"{topic}/messages", json=said).json()["messages"]
        half = {"messages": [{"body": "x"}]}
        begun = client.post(f"{topic}/transactions", params={"producer_group": "pg"}, json=half).json()["transactions"]
        return sent[0]["message_id"], sent[1]["message_id"], begun[0]["message_id"]

    def end(client: httpx.Client, half_id: str) -> httpx.Response:
        return client.post(f"/v1/producer-groups/pg/transactions/{half_id}", json={"resolution": "rollback"})

    def assert_unknown(heir: httpx.Client) -> None:
        for each in (scheduled, plain):
            assert is_problem(heir.delete(f"/v1/messages/{each}"), 404, "message_not_found")
        assert is_problem(end(heir, half), 404, "transaction_not_found")

    scheduled, plain, half = send(admin)
    assert admin.delete(topic).is_success
    with acting(gateway, admin, "heiress", allow("Topic:bequest", "Create", "Pub"), allow("Group:pg", "Pub")) as heir:
        assert_unknown(heir)
        assert heir.put(topic, params={"auto": "true"}).is_success
        assert_unknown(heir)
        own, _, own_half = send(heir)
        for client, message_id, half_id in ((heir, own, own_half), (admin, scheduled, half)):
            assert client.delete(f"/v1/messages/{message_id}").json()["recalled"]
            assert end(client, half_id).status_code == 200
        assert_unknown(heir)


def test_nacks_of_counted_ids_tell_no_names(gateway: GatewayProcess, admin: httpx.Client) -> None:
    assert admin.put("/v1/topics/hidden-salaries", json={"queues": 1}).status_code == 201
    sent = admin.post("/v1/topics/hidden-salaries/messages", json={"messages": [{"body": "x"}]}).json()["messages"][0]
    dead = {"message_id": sent["message_id"], "max_reconsume_times": 0}
    assert admin.post("/v1/groups/hidden-payroll/nacks", json={"messages": [dead]}).is_success
    wait_until(lambda: len(pull_all(admin, "%25DLQ%25hidden-payroll")) == 1)
    letter = pull_all(admin, "%25DLQ%25hidden-payroll")[0]["message_id"]
    before, _, first = sent["message_id"].rpartition(".")
    ids = [f"{before}.{each}" for each in range(int(first), int(letter.rpartition(".")[2]) + 1)]
    with acting(gateway, admin, "counter", allow("Group:mine", "Sub", "Get", "Update")) as counter:
        for each in ids:
            answer = counter.post("/v1/groups/mine/nacks", json={"messages": [{"message_id": each}]})
            assert is_problem(answer, 403, "forbidden"), answer.text
            assert "hidden" not in answer.text
            assert "RMQ_SYS" not in answer.text
    answer = admin.post("/v1/groups/mine/nacks", json={"messages": [{"message_id": letter}]})
    assert is_problem(answer, 400, "invalid_request")


def test_what_is_small_needs_its_right_too(gateway: GatewayProcess, admin: httpx.Client) -> None:
    """Producers' groups, who produces, when hidden messages are due, what became of them, topics made by a producer."""
    for topic in ("shown", "hidden"):
        assert admin.put(f"/v1/topics/{topic}", json={"queues": 1}).status_code == 201
    assert admin.put("/v1/clients/c", json={"topics": ["shown"], "producer_group": "hidden-group"}).is_success
    due = {"messages": [{"body": "x", "delay_ms": 3_600_000}, {"body": "y"}]}
    sent = admin.post("/v1/topics/hidden/messages", json=due).json()["messages"]
    assert admin.delete(f"/v1/messages/{sent[0]['message_id']}").json()["recalled"]
    with acting(gateway, admin, "someone", allow("Topic:shown", "Get"), allow("Topic:made*", "Pub", "Create")) as user:
        (producer,) = user.get("/v1/topics/shown/clients").json()["producers"]
        assert (producer["client_id"], producer["group"]) == ("c", None)
        assert user.put("/v1/clients/mine", json={"topics": ["shown", "made-1"]}).is_success
        assert len(user.get("/v1/topics/shown/clients").json()["producers"]) == 1
        assert user.get("/v1/log/end", params={"topics": "shown"}).status_code == 200
        assert is_problem(user.get("/v1/log/end", params={"topics": "shown", "timer": "any"}), 403, "forbidden")
        for each in sent:
            assert is_problem(user.delete(f"/v1/messages/{each['message_id']}"), 403, "forbidden")
        for status in (201, 200):
            assert user.put("/v1/topics/made-1", params={"auto": True}).status_code == status
    assert [what for tag, what in audited(admin, "someone") if tag == "allowed"] == ["PUT /v1/topics/made-1?auto=true"]
