"""Of topics, and of their queues, a user makes as many as its quotas let it: nobody takes the room of all."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.model.names import AUDIT_TOPIC
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.access.asking import allow, ask_as, make_user, token_of
from tests.gateway.http_client import is_problem, pull
from tests.gateway.routing.asking import wait_until
from tests.gateway.sinks.asking import put_part

MAKES = ("Pub", "Sub", "Create", "Update", "Delete", "Get")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[GatewayProcess, httpx.Client]]:
    data = tmp_path_factory.mktemp("made") / "data"
    options = {"auth__required": "true", "topics__default_queues": 2}
    with start_gateway(data, **options) as gateway, ask_as(gateway, token_of(data)) as admin:
        yield gateway, admin


class User:
    """One with all rights of the topics that begin with its name, or with `shared-`."""

    def __init__(self, guarded: tuple[GatewayProcess, httpx.Client], name: str, **quotas: int) -> None:
        gateway, self.admin = guarded
        self.name = name
        policies = [allow(f"Topic:{prefix}*", *MAKES) for prefix in (name, "shared-")]
        policies += [allow("Sink:*", "Pub"), allow("Group:*", "Sub")]
        self.http = ask_as(gateway, make_user(self.admin, name, *policies, quotas=quotas))

    def put(self, topic: str, queues: int = 1) -> int:
        answer = self.http.put(f"/v1/topics/{topic}", json={"queues": queues})
        assert answer.status_code != 429 or self.is_over(answer, answer.json()["quota"])
        return answer.status_code

    def limit(self, **quotas: int | None) -> None:
        assert self.admin.put(f"/v1/users/{self.name}", json={"quotas": quotas}).status_code == 200

    def is_over(self, answer: httpx.Response, quota: str) -> bool:
        """Assert that the answer says so, and names the bound."""
        assert is_problem(answer, 429, "flow_control")
        assert answer.json()["quota"] == quota
        assert f"user {self.name} would have " in answer.json()["detail"]
        assert f" {quota}, and its quota is " in answer.json()["detail"]
        assert int(answer.headers["retry-after"]) > 1
        return True


def _queues(admin: httpx.Client, topic: str) -> int:
    return len(admin.get(f"/v1/topics/{topic}").json()["queues"])


def test_a_user_makes_so_many_topics_and_after_one_is_deleted_another(
    guarded: tuple[GatewayProcess, httpx.Client],
) -> None:
    with ExitStack() as stack:
        ann, bob = User(guarded, "few", topics=2), User(guarded, "other", topics=2)
        stack.callback(ann.http.close)
        stack.callback(bob.http.close)
        assert [ann.put(f"few-{number}") for number in range(3)] == [201, 201, 429]
        assert [ann.put(f"few-{number}", queues=3) for number in range(2)] == [200, 200], "it has them already"
        assert bob.put("other-0") == 201, "nobody takes the room of others"
        assert ann.http.delete("/v1/topics/few-0").status_code == 200
        assert [ann.put(f"few-{number}") for number in (2, 3)] == [201, 429]
        ann.limit(topics=3)
        assert [ann.put(f"few-{number}") for number in (3, 4)] == [201, 429]
        ann.limit(topics=1)
        assert ann.http.post("/v1/topics/few-3/messages", json={"messages": [{"body": "x"}]}).is_success
        ann.limit(topics=None)
        assert ann.put("few-4") == 201


WAYS: dict[str, Callable[[httpx.Client, str], httpx.Response]] = {
    "put": lambda http, topic: http.put(f"/v1/topics/{topic}"),
    "auto": lambda http, topic: http.put(f"/v1/topics/{topic}", params={"auto": "true"}),
    "plain message": lambda http, topic: http.post(
        f"/v1/topics/{topic}/messages", content=b"x", headers={"Content-Type": "text/plain"}
    ),
    "messages": lambda http, topic: http.post(f"/v1/topics/{topic}/messages", json={"messages": [{"body": "x"}]}),
    "request": lambda http, topic: http.post(
        f"/v1/topics/{topic}/requests",
        params={"timeout_ms": 1},
        content=b"x",
        headers={"Content-Type": "text/plain"},
    ),
    "half": lambda http, topic: http.post(
        f"/v1/topics/{topic}/transactions",
        params={"producer_group": "p"},
        json={"messages": [{"body": "x"}]},
    ),
    "part of a sink": lambda http, topic: put_part(http, "s", 0, topic, ["x"], topic=topic),
}


@pytest.mark.parametrize("way", WAYS)
def test_whatever_makes_a_topic_counts_and_is_refused(guarded: tuple[GatewayProcess, httpx.Client], way: str) -> None:
    name = f"way-{list(WAYS).index(way)}-"
    user = User(guarded, name, topics=1, queues=100)
    with user.http as http:
        first = WAYS[way](http, f"{name}a")
        assert first.is_success or first.json()["code"] == "request_timeout", first.text
        assert user.is_over(WAYS[way](http, f"{name}b"), "topics")
        assert guarded[1].get(f"/v1/topics/{name}b").status_code == 404


def test_queues_count_for_who_added_them(guarded: tuple[GatewayProcess, httpx.Client]) -> None:
    _, admin = guarded
    ann, bob = User(guarded, "wide", queues=6), User(guarded, "growing", queues=6)
    with ann.http, bob.http:
        assert [ann.put("shared-a", 4), ann.put("shared-b", 3), ann.put("shared-b", 2)] == [201, 429, 201]
        assert ann.put("shared-b", 3) == 429
        assert bob.put("shared-a", 7) == 429
        assert bob.put("shared-a", 5) == 200
        assert _queues(admin, "shared-a") == 5
        assert bob.put("growing-a", 2) == 429, "it is his from then on"
        assert ann.put("shared-b", 6) == 200, "and not hers"
        assert admin.put("/v1/topics/shared-b", json={"queues": 50}).status_code == 200
        assert ann.put("wide-a", 6) == 201


def test_of_many_requests_at_once_no_more_succeed(guarded: tuple[GatewayProcess, httpx.Client]) -> None:
    _, admin = guarded
    user = User(guarded, "hasty", topics=3)
    with user.http, ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: user.put(f"hasty-{number}"), range(16)))
    assert sorted(answers) == [201] * 3 + [429] * 13
    assert len(admin.get("/v1/topics", params={"prefix": "hasty-"}).json()["topics"]) == 3


def test_a_refusal_is_audited_and_counted(guarded: tuple[GatewayProcess, httpx.Client]) -> None:
    _, admin = guarded

    def counted() -> float:
        lines = admin.get("/metrics").text.splitlines()
        found = [line for line in lines if line.startswith('lakemq_over_quota_total{quota="topics"}')]
        return float(found[0].split()[-1])

    def records() -> list[dict[str, Any]]:
        messages = pull(admin, AUDIT_TOPIC, 0, 0, max=1_000)["messages"]
        return [json.loads(each["body"]) for each in messages if each["tag"] == "refused"]

    user, before = User(guarded, "noted", topics=1), counted()
    with user.http:
        assert [user.put("noted-a"), user.put("noted-b")] == [201, 429]
    assert counted() == before + 1
    wait_until(lambda: any(each["user"] == "noted" for each in records()))
    found = [each for each in records() if each["user"] == "noted"]
    assert [each["what"] for each in found] == ["Create on Topic:noted-b"]
    assert "its quota is 1" in found[0]["why"]


def test_it_holds_after_a_start_and_super_users_have_no_default(tmp_path: Path) -> None:
    data = tmp_path / "data"
    options = {"auth__required": "true", "auth__user_topics_max": 1, "auth__user_queues_max": 10}
    gateway = start_gateway(data, **options)
    for again in (False, True):
        with gateway, ask_as(gateway, token_of(data)) as admin:
            user, root = User((gateway, admin), "ann"), make_user(admin, "root", type="super")
            with user.http, ask_as(gateway, root) as above:
                assert user.put("ann-a") == (200 if again else 201)
                assert user.put("ann-b") == 429
                for number in range(3):
                    assert above.put(f"/v1/topics/root-{number}").status_code in (200, 201)
        if not again:
            gateway = start_gateway(data, **options)


def test_the_right_to_create_changes_no_topic_that_another_one_creates_at_once(
    guarded: tuple[GatewayProcess, httpx.Client],
) -> None:
    """Which right it takes is looked at when it is done: each change waits for those before."""
    gateway, admin = guarded
    owner_token = make_user(admin, "owner", allow("Topic:at-once-*", *MAKES))
    other_token = make_user(admin, "creates", allow("Topic:at-once-*", "Create"))
    with ask_as(gateway, owner_token) as owner, ask_as(gateway, other_token) as other, ThreadPoolExecutor(2) as pool:
        for number in range(50):
            path = f"/v1/topics/at-once-{number}"
            mine = pool.submit(owner.put, path, json={"queues": 1})
            his = pool.submit(other.put, path, json={"queues": 2, "permission": "r"})
            statuses = mine.result().status_code, his.result().status_code
            assert statuses in {(201, 403), (400, 201)}, "who is second has a topic that is there: its queues only grow"
