"""Groups that an operator has consume nothing."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from lakemq.gateway.process.broker import Broker
from lakemq.model.names import AUDIT_TOPIC
from lakemq.settings import Settings, Storage
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.access.asking import allow, ask_as, make_user, token_of
from tests.gateway.fleet.following import start_follower, wait_for
from tests.gateway.groups.asking import commit, heartbeat, members, view
from tests.gateway.http_client import connect, is_problem, produce, pull, pull_all, put_topic
from tests.gateway.receive.asking import ack, bodies, change, receive
from tests.gateway.routing.asking import wait_until

AT_ONCE_S_MAX = 30.0
"""Half of what they asked for."""


def enable(http: httpx.Client, group: str, enabled: bool) -> Any:
    """Have the group consume, or not."""
    response = http.put(f"/v1/groups/{group}", json={"consume_enabled": enabled})
    assert response.status_code == 200, response.text
    return response.json()


def try_receive(http: httpx.Client, group: str, topic: str, wait_ms: int = 0) -> httpx.Response:
    return http.post(f"/v1/groups/{group}/receive", json={"topic": topic, "wait_ms": wait_ms, "invisible_ms": 60_000})


def try_pull(http: httpx.Client, group: str, topic: str) -> httpx.Response:
    return http.get(f"/v1/topics/{topic}/queues/0/messages", params={"offset": 0, "group": group})


def test_nothing_is_handed_out_until_it_is_enabled_and_nothing_is_lost(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"
    put_topic(http, topic, queues=1)
    produce(http, topic, "a", "b")
    (out,) = receive(http, group, topic, max=1)
    assert enable(http, group, False)["consume_enabled"] is False
    for refused in (try_receive(http, group, topic), try_pull(http, group, topic)):
        assert is_problem(refused, 409, "consume_disabled")
        assert refused.headers["retry-after"] == "5"
        assert group in refused.json()["detail"]
    # Others are served, and so is who pulls for nobody; what is out may be finished.
    assert len(pull(http, topic)["messages"]) == 2
    assert len(receive(http, f"other-{topic}", topic)) == 2
    assert ack(http, group, out) == ["ok"]
    assert commit(http, group, topic, {0: 1}) == {0: 1}
    assert view(http, group)["consume_enabled"] is False
    listed = {each["group"]: each["consume_enabled"] for each in http.get("/v1/groups").json()["groups"]}
    assert (listed[group], listed[f"other-{topic}"]) == (False, True)
    assert enable(http, group, True)["consume_enabled"] is True
    assert bodies(receive(http, group, topic)) == ["b"]
    assert try_pull(http, group, topic).is_success


def test_who_waits_is_given_nothing_that_comes_afterwards(
    gateway: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    group = f"g-{topic}"
    put_topic(http, topic, queues=1)
    answers: dict[str, httpx.Response] = {}

    def wait(kind: str) -> None:
        with connect(gateway) as waiting:
            if kind == "receive":
                answers[kind] = try_receive(waiting, group, topic, 50_000)
            else:
                params: dict[str, Any] = {"offset": 0, "group": group, "wait_ms": 50_000}
                answers[kind] = waiting.get(f"/v1/topics/{topic}/queues/0/messages", params=params)

    threads = [threading.Thread(target=wait, args=(kind,)) for kind in ("receive", "pull")]
    for thread in threads:
        thread.start()
    wait_until(lambda: "lakemq_waiting_requests 2." in http.get("/metrics").text)
    enable(http, group, False)
    produce(http, topic, "late")
    for thread in threads:
        thread.join()
    assert is_problem(answers["receive"], 409, "consume_disabled")
    assert (answers["pull"].json()["messages"], answers["pull"].json()["next_offset"]) == ([], 0)


def test_who_waits_is_answered_at_once_when_the_group_is_paused(
    gateway: GatewayProcess, http: httpx.Client, topic: str
) -> None:
    """Regression: they were held until their own time was over."""
    group, other = f"g-{topic}", f"other-{topic}"
    put_topic(http, topic, queues=1)
    answers: list[httpx.Response] = []

    def wait_by_receive(name: str) -> None:
        with connect(gateway) as waiting:
            answers.append(try_receive(waiting, name, topic, 60_000))

    def wait_by_pull() -> None:
        with connect(gateway) as waiting:
            params: dict[str, Any] = {"offset": 0, "group": group, "wait_ms": 60_000}
            answers.append(waiting.get(f"/v1/topics/{topic}/queues/0/messages", params=params))

    threads = [threading.Thread(target=wait_by_receive, args=(group,)) for _ in range(3)]
    threads += [threading.Thread(target=wait_by_pull) for _ in range(2)]
    others = threading.Thread(target=wait_by_receive, args=(other,))
    for thread in (*threads, others):
        thread.start()
    wait_until(lambda: "lakemq_waiting_requests 6." in http.get("/metrics").text)
    enable(http, group, False)
    for thread in threads:
        thread.join(AT_ONCE_S_MAX)
        assert not thread.is_alive()
    assert sorted(each.status_code for each in answers) == [200, 200, 409, 409, 409]
    assert all(is_problem(each, 409, "consume_disabled") for each in answers if each.status_code == 409)
    pulled = [each.json() for each in answers if each.status_code == 200]
    assert [(each["messages"], each["next_offset"]) for each in pulled] == [([], 0)] * 2
    assert others.is_alive(), "it is no business of other groups"
    produce(http, topic, "x")
    others.join()
    assert len(answers[-1].json()["messages"]) == 1


def test_members_hear_of_it_and_saying_it_again_writes_nothing(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"
    before = heartbeat(http, group, "c", topic)
    assert before["consume_enabled"] is True
    disabled = enable(http, group, False)
    assert disabled["generation"] == before["generation"] + 1
    assert members(http, group, generation=before["generation"], wait_ms=50_000)["consume_enabled"] is False
    end = http.get("/v1/broker").json()["max_position"]
    assert enable(http, group, False) == disabled
    assert heartbeat(http, group, "c", topic)["members"] == ["c"]
    assert http.get("/v1/broker").json()["max_position"] == end


@pytest.mark.parametrize("body", [{}, {"consume_enabled": 1}, {"consume_enabled": None}, {"enabled": True}, [], "x"])
def test_what_says_nothing_is_refused(http: httpx.Client, topic: str, body: Any) -> None:
    assert is_problem(http.put(f"/v1/groups/g-{topic}", json=body), 400, "invalid_request")
    assert is_problem(http.get(f"/v1/groups/g-{topic}"), 404, "group_not_found")


def test_it_survives_kill_travels_to_replicas_and_ends_with_the_group(tmp_path: Path) -> None:
    with start_gateway(tmp_path / "a") as gateway, connect(gateway) as http:
        put_topic(http, "t", queues=1)
        produce(http, "t", "a")
        for group in ("kept", "deleted", "enabled"):
            enable(http, group, False)
        enable(http, "enabled", True)
        assert http.delete("/v1/groups/deleted").is_success
        gateway.kill()
    with start_gateway(tmp_path / "a", groups__groups_max=1) as gateway, connect(gateway) as http:
        assert is_problem(try_receive(http, "kept", "t"), 409, "consume_disabled")
        assert len(receive(http, "deleted", "t")) == 1
        # It holds nothing but that it is disabled, and yet is not forgotten to make room.
        assert is_problem(http.put("/v1/groups/another", json={"consume_enabled": False}), 429, "flow_control")
        with start_follower(tmp_path / "b", gateway.url) as process, connect(process) as follower:
            wait_for(follower, http)
            assert view(follower, "kept")["consume_enabled"] is False
            assert is_problem(try_pull(follower, "kept", "t"), 409, "consume_disabled")
            assert try_pull(follower, "enabled", "t").is_success
            assert is_problem(follower.put("/v1/groups/kept", json={"consume_enabled": True}), 421, "not_leader")


def test_what_runs_out_meanwhile_comes_when_the_group_consumes_again(http: httpx.Client, topic: str) -> None:
    group = f"g-{topic}"
    put_topic(http, topic, queues=1)
    produce(http, topic, "again")
    (out,) = receive(http, group, topic)
    enable(http, group, False)
    assert change(http, group, out["receipt"], 0).is_success
    assert is_problem(try_receive(http, group, topic), 409, "consume_disabled")
    enable(http, group, True)
    (again,) = receive(http, group, topic, wait_ms=50_000)
    assert (again["body"], again["reconsume_times"]) == ("again", 1)


def test_it_takes_a_right_and_is_written_down(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with start_gateway(data, auth__required="true") as gateway, ask_as(gateway, token_of(data)) as admin:
        may = make_user(admin, "olga", allow("Group:billing", "Update"))
        may_not = make_user(admin, "peter", allow("Group:billing", "Sub", "Get"))
        with ask_as(gateway, may) as olga, ask_as(gateway, may_not) as peter:
            enable(olga, "billing", False)
            assert is_problem(peter.put("/v1/groups/billing", json={"consume_enabled": True}), 403, "forbidden")
            assert is_problem(olga.put("/v1/groups/other", json={"consume_enabled": False}), 403, "forbidden")
            assert view(peter, "billing")["consume_enabled"] is False
        noted = [(each["tag"], json.loads(each["body"])) for each in pull_all(admin, AUDIT_TOPIC)]
        who = [(tag, each["user"], each["what"]) for tag, each in noted]
        assert ("allowed", "olga", "PUT /v1/groups/billing") in who
        assert ("refused", "peter", "PUT /v1/groups/billing") in who


def test_who_asks_last_has_the_last_word(tmp_path: Path) -> None:
    """Also while what another one has asked for is on its way to the log."""

    async def ask_both() -> bool:
        broker = Broker(Settings(storage=Storage(data_dir=tmp_path)))
        broker.open()
        await broker.start()
        try:
            await broker.groups.enable("g", consume_enabled=True)
            *_, last = await asyncio.gather(*[broker.groups.enable("g", each) for each in (False, True)])
            return last.consume_enabled
        finally:
            await broker.close()

    assert asyncio.run(ask_both()) is True
