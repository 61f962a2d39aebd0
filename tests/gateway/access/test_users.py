"""Users, policies and tokens: made, changed and deleted by requests, and kept whatever ends."""

from __future__ import annotations

import hashlib
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.model.names import ACCESS_TOPIC
from lakemq.model.quota import UNSAID
from lakemq.model.token import parse_token
from lakemq.storage.disk.clock import SystemClock
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.access.asking import allow, ask_as, deny, make_user, token_of
from tests.gateway.fleet.following import start_pair, wait_for
from tests.gateway.http_client import connect, is_problem, produce
from tests.gateway.routing.asking import wait_until

_numbers = count()
PAST_MS = 1_000_000_000_000
FAR_MS = 4_000_000_000_000


@pytest.fixture
def user(http: httpx.Client) -> str:
    """The path of a user that no other test has."""
    path = f"/v1/users/user-{next(_numbers)}"
    assert http.put(path).status_code == 201
    return path


def tokens_of(http: httpx.Client, user: str) -> list[dict[str, Any]]:
    return http.get(f"{user}/tokens").json()["tokens"]


def test_a_user_is_made_and_changed_and_what_is_not_said_stays(http: httpx.Client) -> None:
    path = f"/v1/users/user-{next(_numbers)}"
    made = http.put(path, json={"type": "super"})
    name = path.rpartition("/")[2]
    assert (made.status_code, made.json()) == (201, {"user": name, "type": "super", "status": "enabled"})
    changed = http.put(path, json={"status": "disabled"})
    assert (changed.status_code, changed.json()) == (200, {"user": name, "type": "super", "status": "disabled"})
    assert http.put(path).json() == changed.json()
    assert changed.json() in http.get("/v1/users").json()["users"]
    assert http.get(path).json() == changed.json() | {"tokens": [], "policies": [], "quotas": UNSAID.fields()}
    assert http.delete(path).status_code == 204
    for answer in (http.get(path), http.delete(path), http.get(f"{path}/tokens"), http.get(f"{path}/policies")):
        assert is_problem(answer, 404, "user_not_found")
    assert is_problem(http.post(f"{path}/tokens"), 404, "user_not_found")
    assert is_problem(http.put(f"{path}/policies", json={"policies": []}), 404, "user_not_found")


def test_of_quotas_what_is_not_said_stays_and_null_is_the_default(http: httpx.Client, user: str) -> None:
    def put(**quotas: Any) -> Any:
        answer = http.put(user, json={"quotas": quotas})
        assert answer.status_code == 200, answer.text
        said = http.get(user).json()["quotas"]
        assert answer.json().get("quotas", UNSAID.fields()) == said
        assert answer.json() in http.get("/v1/users").json()["users"]
        return said

    assert put() == UNSAID.fields()
    said = UNSAID.fields() | {"requests_per_s": 100, "connections": 5}
    assert put(requests_per_s=100, connections=5) == said
    said |= {"bytes_per_s": 0.5, "topics": 3}
    assert put(bytes_per_s=0.5, topics=3) == said
    assert http.put(user, json={"status": "disabled"}).json()["quotas"] == put() != UNSAID.fields()
    assert put(requests_per_s=None, connections=0) == said | {"requests_per_s": None, "connections": 0}
    http.put(f"{user}/policies", json={"policies": [allow("Topic:a", "Pub")]})
    http.post(f"{user}/tokens")
    assert put()["bytes_per_s"] == 0.5
    http.delete(user)
    http.put(user)
    assert put() == UNSAID.fields()


@pytest.mark.parametrize(
    ("method", "path", "body", "says"),
    [
        ("PUT", "", {"quotas": {"requests_per_s": -1}}, "the quota requests_per_s is"),
        ("PUT", "", {"quotas": {"bytes_per_s": 10**13}}, "the quota bytes_per_s is"),
        ("PUT", "", {"quotas": {"connections": -1}}, "the quota connections is"),
        ("PUT", "", {"quotas": {"connections": 1.5}}, "body.quotas.connections"),
        ("PUT", "", {"quotas": {"requests_per_s": "1"}}, "body.quotas.requests_per_s"),
        ("PUT", "", {"quotas": {"messages_per_s": 1}}, "body.quotas.messages_per_s"),
        ("PUT", "", {"quotas": {"bytes_per_s": 10**400}}, "quota"),
        ("PUT", "", {"quotas": {"connections": 10**400}}, "quota"),
        ("PUT", "", {"quotas": []}, "body.quotas"),
        ("PUT", "", {"type": "root"}, "a user's type is one of"),
        ("PUT", "", {"status": "gone"}, "a user's status is one of"),
        ("PUT", "", {"kind": "super"}, "body.kind"),
        ("PUT", "", {"type": 5}, "body.type"),
        ("POST", "/tokens", {"expires_ms": -1}, "body.expires_ms"),
        ("POST", "/tokens", {"expires_ms": "1"}, "body.expires_ms"),
        ("POST", "/tokens", {"expires_ms": 2**63}, "body.expires_ms"),
        ("POST", "/tokens", {"token_id": "a"}, "both, or neither"),
        ("POST", "/tokens", {"secret_hash": "0" * 64}, "both, or neither"),
        ("POST", "/tokens", {"token_id": "a_b", "secret_hash": "0" * 64}, "body.token_id"),
        ("POST", "/tokens", {"token_id": "a\n", "secret_hash": "0" * 64}, "body.token_id"),
        ("POST", "/tokens", {"token_id": "a", "secret_hash": "0" * 64 + "\n"}, "body.secret_hash"),
        ("POST", "/tokens", {"token_id": "a", "secret_hash": "F" * 64}, "body.secret_hash"),
        ("PUT", "/policies", {}, "body.policies"),
        ("PUT", "/policies", {"policies": [allow("Topic:a", "Pub")] * 257}, "body.policies"),
        ("PUT", "/policies", {"policies": [allow("Topic:a", "Pub"), 5]}, "policies[1]: a policy is an object"),
        ("PUT", "/policies", {"policies": [allow("Topic:a", "Fly")]}, "policies[0]: an action is one of"),
        ("PUT", "/policies", {"policies": [["x" * 70_000]]}, "65536 characters at most"),
    ],
)
def test_what_is_wrong_is_refused_and_changes_nothing(
    http: httpx.Client, user: str, method: str, path: str, body: Any, says: str
) -> None:
    before = http.get(user).json()
    answer = http.request(method, f"{user}{path}", json=body)
    assert is_problem(answer, 400, "invalid_request")
    assert says in answer.json()["detail"]
    assert http.get(user).json() == before


@pytest.mark.parametrize("name", ["a%20b", "admin.token", "x" * 128, "%C3%A4"])
def test_what_can_name_no_user_is_refused(http: httpx.Client, name: str) -> None:
    for method, path in (("GET", ""), ("PUT", ""), ("DELETE", ""), ("POST", "/tokens"), ("GET", "/policies")):
        assert is_problem(http.request(method, f"/v1/users/{name}{path}"), 400, "invalid_request")


def test_a_token_is_shown_once_and_its_secret_is_kept_nowhere(
    gateway: GatewayProcess, http: httpx.Client, user: str
) -> None:
    given = http.post(f"{user}/tokens", json={})
    assert given.status_code == 201
    token = parse_token(given.json()["token"])
    assert given.json() == {"token": token.text, "token_id": token.id, "expires_ms": None}
    (kept,) = tokens_of(http, user)
    assert (kept["token_id"], kept["expires_ms"]) == (token.id, None)
    assert "hash" not in http.get(user).text
    queue = http.get(f"/v1/topics/{ACCESS_TOPIC}/queues/0/messages", params={"offset": 0, "max": 10_000})
    assert token.id in queue.text
    assert token.secret not in queue.text
    assert hashlib.sha256(token.secret.encode()).hexdigest() in queue.text
    http.put(user, json={"type": "super"})
    with ask_as(gateway, token.text) as known:
        assert known.get(user).status_code == 200
        assert known.delete(f"{user}/tokens/{token.id}").status_code == 204
        assert is_problem(known.get(user), 401, "unauthenticated")
    assert is_problem(http.delete(f"{user}/tokens/{token.id}"), 404, "token_not_found")


def test_a_token_is_changed_for_another_without_a_break(gateway: GatewayProcess, http: httpx.Client, user: str) -> None:
    http.put(user, json={"type": "super"})
    old = http.post(f"{user}/tokens").json()
    with ask_as(gateway, old["token"]) as asks:
        new = asks.post(f"{user}/tokens").json()
        assert asks.get(user).status_code == 200
    with ask_as(gateway, new["token"]) as asks:
        assert asks.delete(f"{user}/tokens/{old['token_id']}").status_code == 204
        assert asks.get(user).status_code == 200


def test_a_time_is_a_time_or_a_span_and_what_is_over_gives_way(http: httpx.Client, user: str) -> None:
    now_ms = SystemClock().now_ms()
    spans = {0: 0, 60_000: 60_000}
    for said, span in spans.items():
        over = http.post(f"{user}/tokens", json={"expires_ms": said}).json()["expires_ms"]
        assert now_ms + span <= over <= now_ms + span + 60_000
    for said in (PAST_MS, FAR_MS):
        assert http.post(f"{user}/tokens", json={"expires_ms": said}).json()["expires_ms"] == said
    ids = [each["token_id"] for each in tokens_of(http, user)]
    assert len(ids) == 4, "those that are over are there as long as there is room"
    for _ in range(14):
        assert http.post(f"{user}/tokens").status_code == 201
    left = [each["token_id"] for each in tokens_of(http, user)]
    assert (len(left), left[:2]) == (16, [ids[1], ids[3]]), "two were over, and gave way"
    refused = http.post(f"{user}/tokens")
    assert is_problem(refused, 429, "flow_control")
    assert "auth.user_tokens_max" in refused.json()["detail"]
    assert [each["token_id"] for each in tokens_of(http, user)] == left


def test_a_token_that_was_made_elsewhere_is_taken_by_its_hash(
    gateway: GatewayProcess, http: httpx.Client, user: str
) -> None:
    token = parse_token(f"lmq_elsewhere{next(_numbers)}_{'s' * 32}")
    body = {"token_id": token.id, "secret_hash": token.secret_hash}
    http.put(user, json={"type": "super"})
    for expires_ms in (None, FAR_MS):
        given = http.post(f"{user}/tokens", json={**body, "expires_ms": expires_ms})
        assert (given.status_code, given.json()) == (201, {"token_id": token.id, "expires_ms": expires_ms})
    assert [each["expires_ms"] for each in tokens_of(http, user)] == [FAR_MS], "the same again: one, as said last"
    with ask_as(gateway, token.text) as known:
        assert known.get(user).status_code == 200
    other = http.post(f"{user}/tokens", json={**body, "secret_hash": "0" * 64})
    assert is_problem(other, 400, "invalid_request")
    somebody = f"/v1/users/user-{next(_numbers)}"
    http.put(somebody)
    assert is_problem(http.post(f"{somebody}/tokens", json=body), 400, "invalid_request")


def test_policies_are_all_of_them_and_asked_about(http: httpx.Client, user: str) -> None:
    policies = [allow("Topic:orders*", "Pub", "Sub") | {"sources": ["10.0.0.0/8"]}, deny("Topic:orders-old", "Pub")]
    kept = http.put(f"{user}/policies", json={"policies": policies}).json()
    assert kept == http.get(f"{user}/policies").json()
    assert kept["policies"][1] == {**policies[1], "sources": []}
    assert http.get(user).json()["policies"] == kept["policies"]
    name = user.rpartition("/")[2]

    def ask(action: str, resource: str, **more: str) -> Any:
        return http.post("/v1/access", json={"user": name, "action": action, "resource": resource, **more})

    here = {"source": "10.1.1.1"}
    assert ask("Pub", "Topic:orders", **here).json() == {
        "allowed": True,
        "by": "allow Pub, Sub on Topic:orders* from 10.0.0.0/8",
    }
    assert ask("Pub", "Topic:orders").json() == {"allowed": False, "by": "no policy allows it"}
    assert ask("Pub", "Topic:orders-old", **here).json() == {"allowed": False, "by": "deny Pub on Topic:orders-old"}
    http.put(f"{user}/policies", json={"policies": [allow("Group:g", "Sub")]})
    assert ask("Sub", "Topic:%RETRY%g").json()["allowed"], "a group's retries are the group's"
    assert not ask("Sub", f"Topic:{ACCESS_TOPIC}").json()["allowed"]
    for action, resource in (("Fly", "Topic:t"), ("Pub", "Topic"), ("Pub", "Topic:orders*"), ("Pub", "Cluster:c")):
        assert is_problem(ask(action, resource), 400, "invalid_request")
    nobody = http.post("/v1/access", json={"user": "nobody", "action": "Pub", "resource": "Topic:t"})
    assert is_problem(nobody, 404, "user_not_found")
    assert http.put(f"{user}/policies", json={"policies": []}).json() == {"policies": []}


def test_of_two_who_set_policies_at_once_one_is_obeyed(http: httpx.Client, user: str) -> None:
    wanted = [[allow(f"Topic:{letter}", "Pub"), allow(f"Group:{letter}", "Sub")] for letter in "abcdefgh"]
    described = [[each | {"sources": [], "decision": "allow"} for each in policies] for policies in wanted]
    with ThreadPoolExecutor(8) as threads:
        for _ in range(5):
            answers = list(
                threads.map(lambda policies: http.put(f"{user}/policies", json={"policies": policies}), wanted)
            )
            assert [answer.json()["policies"] for answer in answers] == described
            assert http.get(f"{user}/policies").json()["policies"] in described


def test_requests_at_once_leave_what_one_after_the_other_would(http: httpx.Client, user: str) -> None:
    with ThreadPoolExecutor(8) as threads:
        given = list(threads.map(lambda _: http.post(f"{user}/tokens").status_code, range(24)))
        assert (given.count(201), given.count(429), len(tokens_of(http, user))) == (16, 8, 16)
        codes = list(threads.map(lambda _: http.delete(user).status_code, range(8)))
        assert sorted(codes) == [204] + [404] * 7
        made = list(threads.map(lambda _: http.put(user).status_code, range(8)))
        assert sorted(made) == [200] * 7 + [201]


def test_there_are_only_so_many_users_and_policies(tmp_path: Path) -> None:
    options = {"auth__users_max": 2, "auth__policies_bytes_max": 1024}
    with start_gateway(tmp_path / "data", **options) as gateway, connect(gateway) as http:
        for name in "ab":
            assert http.put(f"/v1/users/{name}").status_code == 201
        refused = http.put("/v1/users/c")
        assert is_problem(refused, 429, "flow_control")
        assert "auth.users_max" in refused.json()["detail"]
        assert http.put("/v1/users/a", json={"type": "super"}).status_code == 200
        nine = {"policies": [allow(f"Topic:{number}", "Pub") for number in range(9)]}
        assert http.put("/v1/users/a/policies", json=nine).status_code == 200
        too_many = http.put("/v1/users/b/policies", json=nine)
        assert is_problem(too_many, 429, "flow_control")
        assert http.put("/v1/users/a/policies", json={"policies": nine["policies"][1:]}).status_code == 200
        http.delete("/v1/users/a")
        assert http.put("/v1/users/b/policies", json=nine).status_code == 200
        assert http.put("/v1/users/c").status_code == 201


def test_the_log_of_a_broker_without_users_says_nothing_of_them_and_they_outlive_a_kill(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with start_gateway(data) as gateway, connect(gateway) as http:
        produce(http, "t", "one")
        for answer in (http.get("/v1/users/a"), http.delete("/v1/users/a"), http.post("/v1/users/a/tokens")):
            assert is_problem(answer, 404, "user_not_found")
        assert ACCESS_TOPIC not in http.get("/v1/topics", params={"system": "true"}).text
        token = make_user(http, "a", allow("Topic:t", "Sub"), type="super")
        before = http.get("/v1/users/a").json()
        assert ACCESS_TOPIC in http.get("/v1/topics", params={"system": "true"}).text
        gateway.kill()
    with start_gateway(data) as gateway, ask_as(gateway, token) as known:
        assert known.get("/v1/users/a").json() == before
        assert known.delete(f"/v1/users/a/tokens/{before['tokens'][0]['token_id']}").status_code == 204
        gateway.stop()
    with start_gateway(data) as gateway, ask_as(gateway, token) as known:
        assert is_problem(known.get("/v1/users/a"), 401, "unauthenticated")
    assert re.search(rb"lmq_[0-9a-f]+_", (data / "admin.token").read_bytes())
    secret = parse_token(token).secret.encode()
    for file in data.rglob("*"):
        assert not file.is_file() or secret not in file.read_bytes(), file


def test_a_follower_knows_the_users_and_changes_none(tmp_path: Path) -> None:
    with start_pair(tmp_path) as pair:
        token = make_user(pair.primary, "ann", allow("Topic:t", "Pub"), type="super")
        wait_for(pair.follower, pair.primary)
        with ask_as(pair.process, token) as known:
            wait_until(lambda: known.get("/v1/users").status_code == 200)
            assert known.get("/v1/users/ann").json() == pair.primary.get("/v1/users/ann").json()
            asked = {"user": "ann", "action": "Pub", "resource": "Topic:t"}
            assert known.post("/v1/access", json=asked).json()["allowed"]
            for method, path in (("PUT", ""), ("DELETE", ""), ("POST", "/tokens"), ("PUT", "/policies")):
                assert is_problem(known.request(method, f"/v1/users/ann{path}"), 421, "not_leader")
            pair.primary.delete("/v1/users/ann")
            wait_until(lambda: known.get("/v1/users").status_code == 401)
        with ask_as(pair.process, token_of(tmp_path / "follower")) as administrator:
            assert administrator.get("/v1/users").json() == {"users": []}
