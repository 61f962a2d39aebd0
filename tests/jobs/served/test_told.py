"""What users take and are refused here, brokers know: it counts in their quotas there, and stands in the audit."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx
import pytest

from lakemq.jobs.errors import BrokerUnavailable
from lakemq.jobs.served.brokers import Brokers
from lakemq.jobs.served.refusals import WAITING_MAX, Refusal, Refusals
from lakemq.jobs.served.usage import Usage
from lakemq.jobs.served.user_connections import UserConnections
from lakemq.jobs.served.who import Asker, Who
from lakemq.model.errors import Unauthenticated
from lakemq.model.names import AUDIT_TOPIC
from lakemq.web.seat import Seat
from tests.gateway.access.asking import allow, ask_as, make_user
from tests.gateway.http_client import is_problem, pull_all
from tests.jobs.served.scene import WAIT_S, Scene

SECRET = "hunter2"
TOLD_S = 300
NOWHERE = "http://127.0.0.1:1"
Record = tuple[str, str, str]


def refusals(scene: Scene) -> dict[Record, dict[str, Any]]:
    """Those of the audit: who, what and why, and all of it."""
    with ask_as(scene.gateway, scene.tokens["admin"]) as admin:
        found = [json.loads(each["body"]) for each in pull_all(admin, AUDIT_TOPIC) if each["tag"] == "refused"]
    return {(each["user"], each["what"], each["why"]): each for each in found}


def wait_for(scene: Scene, user: str, what: str, why: str) -> dict[str, Any]:
    """Such a refusal, in whose reason stands `why`."""
    end = time.monotonic() + TOLD_S
    while True:
        found = [each for key, each in refusals(scene).items() if key[:2] == (user, what) and why in key[2]]
        if found:
            return found[0]
        assert time.monotonic() < end, refusals(scene)
        time.sleep(0.1)


def test_who_is_refused_again_and_again_is_said_once_in_the_log(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """A flood of them filled it: each had its line."""
    for _ in range(10):
        assert scene.problem("SELECT 1 FROM consume_queue", "nobody")[0] == 403
    said = [each.getMessage() for each in caplog.records if "Lake:consume_queue" in each.getMessage()]
    assert len(said) == 1, said


def test_what_is_refused_is_in_the_audit_with_who_the_kind_and_the_table(scene: Scene) -> None:
    assert scene.problem("SELECT 1 FROM messages", "nobody")[0] == 403
    assert scene.problem(f"DROP TABLE topics -- {SECRET}", "olga")[0] == 400
    assert scene.problem(f"SELECT repeat('{SECRET}', 9) FROM live.messages", "ines")[0] == 400
    assert scene.problem(f"SELECT * FROM csv.`/etc/{SECRET}`", "max")[0] == 400
    # From an address of its own, as all from one whom nobody knows are alike in the audit.
    wrong = {"Authorization": "Bearer lmq_" + "a" * 16 + "_" + "b" * 43}
    with httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2"), timeout=WAIT_S) as http:
        unknown = http.post(f"{scene.server.url}/v1/sql", json={"statement": f"SELECT '{SECRET}'"}, headers=wrong)
    assert unknown.status_code == 401
    assert scene.problem(f"SELEC {SECRET}", "gina")[0] == 400
    found = [
        wait_for(scene, "nobody", "POST /v1/sql SELECT messages", "Sql on Lake:messages"),
        wait_for(scene, "olga", "POST /v1/sql DROP topics", "isn't served"),
        wait_for(scene, "ines", "POST /v1/sql SELECT live.messages", "repeat"),
        wait_for(scene, "max", "POST /v1/sql SELECT", "there is no table"),
        wait_for(scene, "", "POST /v1/sql", "not valid"),
    ]
    assert [each["source"] for each in found] == ["127.0.0.1"] * 4 + ["127.0.0.2"]
    assert all(each["request_id"] for each in found)
    everything = refusals(scene)
    assert not [key for key in everything if key[0] == "gina"], "what isn't understood is no refusal"
    assert SECRET not in str([key[1] for key in everything])


def test_answers_count_in_the_quota_that_the_gateway_keeps(scene: Scene) -> None:
    with ask_as(scene.gateway, scene.tokens["admin"]) as admin:
        policies = allow("Lake:*", "Sql"), allow("Topic:*", "Get")
        scene.tokens["quinn"] = make_user(admin, "quinn", *policies, quotas={"bytes_per_s": 1_000})
        answer = scene.ask("SELECT body FROM messages WHERE topic = 'secondary' LIMIT 5000", "quinn", rows_max=5_000)
        assert answer.status_code == 200
        assert len(answer.content) > 20_000
        with ask_as(scene.gateway, scene.tokens["quinn"]) as quinn:
            at_gateway = quinn.get("/v1/topics")
        at_server = scene.ask("SELECT 1", "quinn")
        for each in (at_gateway, at_server):
            assert is_problem(each, 429, "flow_control")
            assert each.json()["quota"] == "bytes"
            assert int(each.headers["retry-after"]) > 1
        assert admin.put("/v1/users/quinn", json={"quotas": {"bytes_per_s": 0}}).is_success
    assert scene.rows("SELECT 1", "quinn") == [[1]]


def test_statements_count_as_requests_and_what_is_held_up_is_audited(scene: Scene) -> None:
    with ask_as(scene.gateway, scene.tokens["admin"]) as admin:
        quotas = {"requests_per_s": 0.001}
        scene.tokens["rob"] = make_user(admin, "rob", allow("Lake:*", "Sql"), quotas=quotas)
        answer = scene.ask("SELECT 1", "rob")
        assert is_problem(answer, 429, "flow_control")
        assert answer.json()["quota"] == "requests", "who that is has been one already"
        assert int(answer.headers["retry-after"]) > 100
        assert wait_for(scene, "rob", "POST /v1/sql", "quota")


def over_quota(scene: Scene) -> float:
    """How many connections the gateway says were one too many."""
    with ask_as(scene.gateway, scene.tokens["admin"]) as admin:
        lines = admin.get("/metrics").text.splitlines()
    return sum(float(each.rsplit(" ", 1)[1]) for each in lines if 'over_quota_total{quota="connections"}' in each)


def test_connections_count_in_the_quota_until_they_are_closed(scene: Scene) -> None:
    with ask_as(scene.gateway, scene.tokens["admin"]) as admin:
        token = make_user(admin, "connie", allow("Lake:*", "Sql"), quotas={"connections": 2})
        other = make_user(admin, "conrad", allow("Lake:*", "Sql"), quotas={"connections": 1})

    def connect(token: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"}
        return httpx.Client(base_url=scene.server.url, trust_env=False, timeout=WAIT_S, headers=headers)

    before = over_quota(scene)
    with connect(token) as first, connect(token) as third:
        second = connect(token)
        for _ in range(2):
            assert [each.get("/v1/sql").status_code for each in (first, second)] == [200, 200]
        refused = third.post("/v1/sql", json={"statement": "SELECT 1"})
        assert is_problem(refused, 429, "flow_control")
        assert refused.json()["quota"] == "connections"
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.headers["connection"] == "close"
        assert over_quota(scene) == before + 1
        assert wait_for(scene, "connie", "POST /v1/sql", "as many connections as its quota lets it, 2")
        assert first.get("/v1/sql").status_code == 200
        with connect(other) as another:
            assert another.get("/v1/sql").status_code == 200, "that is another user's quota"
        second.close()
        end = time.monotonic() + TOLD_S
        while (again := third.get("/v1/sql")).status_code == 429:
            assert time.monotonic() < end
            time.sleep(0.05)
        assert again.status_code == 200


def test_nothing_is_kept_of_users_without_connections_and_a_closed_one_is_nobodys() -> None:
    connections = UserConnections()
    seats = [Seat() for _ in range(3)]
    assert [connections.enter("ann", seat) for seat in seats] == [0, 1, 2]
    assert connections.enter("ann", seats[0]) is None
    assert connections.enter("ben", seats[0]) == 0
    assert connections.enter("", seats[0]) is None
    assert len(connections) == 1
    for seat in seats:
        seat.close()
    assert connections.enter("ann", seats[1]) == 0, "it was closed while a broker was asked who it is of"
    assert len(connections) == 0


def test_who_is_gone_meanwhile_is_nobody_and_a_broker_that_is_away_is_waited_for(scene: Scene) -> None:
    with ask_as(scene.gateway, scene.tokens["admin"]) as admin:
        token = make_user(admin, "gus", allow("Lake:*", "Sql"))
        who = Who(lambda: scene.gateway.url)
        asker = who.asks(f"Bearer {token}", "127.0.0.1")
        who.close()
        assert admin.delete("/v1/users/gus").is_success
    brokers = Brokers()
    try:
        with pytest.raises(Unauthenticated):
            Usage(brokers).admit(asker, 10, "")
        with pytest.raises(BrokerUnavailable):
            Usage(brokers).took(Asker(asker.users, None, (NOWHERE,)), 10)
    finally:
        brokers.close()


def test_refusals_wait_for_a_broker_and_those_without_room_are_counted(scene: Scene) -> None:
    addresses = [NOWHERE]
    brokers = Brokers()
    told = Refusals(brokers, lambda: ",".join(addresses))
    for _ in range(WAITING_MAX + 5):  # all are alike: one record
        told.add(Refusal("wanda", "192.0.2.7", "SELECT", "why " * 1_000, "id"))
    addresses[:] = [NOWHERE, scene.gateway.url]
    assert wait_for(scene, "wanda", "POST /v1/sql SELECT", "why")["source"] == "192.0.2.7"
    told.add(Refusal("later", "192.0.2.8", "SELECT", "why", ""))
    wait_for(scene, "later", "POST /v1/sql SELECT", "why")
    told.close()
    brokers.close()
    assert missed(scene) >= 5


def missed(scene: Scene) -> int:
    return sum(each["missed"] for each in refusals(scene).values())


def test_others_than_the_jobs_may_not_say_what_users_take(scene: Scene) -> None:
    with ask_as(scene.gateway, scene.tokens["max"]) as user:
        answers: list[httpx.Response] = [
            user.post("/v1/users/olga/usage", json={"bytes": 10**12}),
            user.post("/v1/audit/refusals", json={"refusals": [{"user": "olga", "why": "x"}]}),
        ]
    assert all(is_problem(each, 403, "forbidden") for each in answers)
