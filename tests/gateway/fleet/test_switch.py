"""A leader dies, and another takes its place: nothing that was acknowledged is lost, and the old one follows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

from lakemq.model.names import AUDIT_TOPIC
from tests.gateway.fleet.electing import ELECTED, LASTING, LONGEST, PATIENT, STILL_S, SYNC, Load, replicas, role_of
from tests.gateway.fleet.following import broker_of, degraded, wait_for
from tests.gateway.fleet.test_in_sync import number, stopped
from tests.gateway.http_client import is_problem, produce, pull_all, put_topic
from tests.gateway.routing.asking import wait_until
from tests.standstill import begins_again_after

SWITCHES_MAX = 6


def shown_by(follower: httpx.Client, leader: httpx.Client) -> None:
    """Wait until the follower shows all that the leader has: it hears a moment later that it is confirmed."""
    end = wait_for(follower, leader)
    wait_until(lambda: broker_of(follower)["confirmed_position"] >= end)


@begins_again_after(STILL_S)
def test_a_leader_that_is_killed_is_replaced_and_follows_when_it_is_back(tmp_path: Path) -> None:
    with replicas(tmp_path, **PATIENT) as fleet:
        first = [each["position"] for each in produce(fleet.http(0), "t", "0", "1")]
        epoch = broker_of(fleet.http(0))["epoch"]
        keyed: dict[str, Any] = {"json": {"messages": [{"body": "once"}]}, "headers": {"Idempotency-Key": "k"}}
        once = fleet.http(0).post("/v1/topics/t/messages", **keyed).json()
        fleet.kill(0)
        assert fleet.leader() == 1
        assert broker_of(fleet.http(1))["epoch"] > epoch
        assert number(fleet.http(1), "lakemq_leads") == 1
        assert number(fleet.http(1), "lakemq_epoch") == broker_of(fleet.http(1))["epoch"]
        assert fleet.http(1).post("/v1/topics/t/messages", **keyed).json() == once
        (placed,) = produce(fleet.http(1), "t", "2")
        # Nobody was told of more than it has: it goes on where its log ends, and no consumer hears of a gap.
        assert max(first) < placed["position"] < max(first) + 100
        again = fleet.start(0)
        wait_until(lambda: role_of(again) == "follower")
        fleet.in_sync(0, 1)
        shown_by(again, fleet.http(1))
        assert number(again, "lakemq_leads") == 0
        assert number(again, "lakemq_epoch") == number(fleet.http(1), "lakemq_epoch")
        for http in (fleet.http(0), fleet.http(1)):
            assert sorted(each["body"] for each in pull_all(http, "t")) == ["0", "1", "2", "once"]


def test_a_planned_switch_fails_no_request_and_loses_nothing(tmp_path: Path) -> None:
    with replicas(tmp_path, **LASTING) as fleet:
        put_topic(fleet.http(0), "t")
        with Load([fleet.running[each].url for each in (0, 1)], "t") as load:
            for to in (1, 0):
                load.wait_for_more(20)
                answer = fleet.http(1 - to).post("/v1/broker/switch", json={"replica": to})
                assert answer.json()["leader"] == to, answer.text
                wait_until(lambda to=to: role_of(fleet.http(to)) == "primary")
                load.wait_for_more(20)
        assert load.failures == []
        fleet.in_sync(0, 1)
        stored = [each["body"] for each in pull_all(fleet.http(0), "t")]
        assert sorted(stored) == sorted(load.acknowledged)
        shown_by(fleet.http(1), fleet.http(0))
        assert [each["body"] for each in pull_all(fleet.http(1), "t")] == stored


def test_a_planned_switch_waits_for_nobodys_next_look(tmp_path: Path) -> None:
    """With such a lease it is 12 s until that; a request is held for 5 s at most, and then told where to go if anybody
    knows. Two of them are over before anybody's next look, so each way is to be told of once: where the machine stood
    still it is by another switch."""
    with replicas(tmp_path, **LONGEST) as fleet:
        put_topic(fleet.http(0), "t")
        told: set[int] = set()
        for turn in range(SWITCHES_MAX):
            to = 1 - turn % 2
            assert fleet.http(1 - to).post("/v1/broker/switch", json={"replica": to}).json()["leader"] == to
            for _ in range(2):
                answer = fleet.http(1 - to).post("/v1/topics/t/messages", json={"messages": [{"body": f"{to}"}]})
                assert answer.status_code in (421, 503), answer.text
                assert answer.json().get("leader") in (None, fleet.running[to].url), answer.text
                if "leader" in answer.json():
                    told.add(to)
                    break
            fleet.in_sync(0, 1)
            assert produce(fleet.http(to), "t", f"{to}")
            if told == {0, 1}:
                return
        raise AssertionError(f"of {SWITCHES_MAX} switches only those to {sorted(told)} were told of")


@begins_again_after(STILL_S)
def test_a_switch_to_who_is_not_in_sync_is_refused_and_the_leader_leads_on(tmp_path: Path) -> None:
    with replicas(tmp_path, count=1, **PATIENT) as fleet:
        leader = fleet.http(0)
        assert is_problem(leader.post("/v1/broker/switch", json={"replica": 1}), 409, "not_in_sync")
        assert leader.post("/v1/broker/switch", json={"replica": 0}).json()["leader"] == 0
        assert is_problem(leader.post("/v1/broker/switch", json={"replica": 256}), 400, "invalid_request")
        assert leader.post("/v1/broker/elect", json={"unclean": True}).json()["leader"] == 0
        assert produce(leader, "t", "on")


@begins_again_after(STILL_S)
def test_a_switch_that_can_not_be_written_down_is_refused_and_nobody_waits_for_the_store(tmp_path: Path) -> None:
    with replicas(tmp_path, **PATIENT) as fleet:
        put_topic(fleet.http(0), "t")
        (tmp_path / "store").rename(tmp_path / "away")
        for body in ("0", "1"):
            refused = fleet.http(0).post("/v1/broker/switch", json={"replica": 1})
            assert is_problem(refused, 503, "store_unwritable")
            assert refused.json()["detail"].startswith("who is to lead can't be written down, so this one leads on: ")
            produce(fleet.http(0), "t", body)
        (tmp_path / "away").rename(tmp_path / "store")
        fleet.in_sync(0, 1)
        led: list[int] = []

        def switches() -> bool:
            # Who hasn't heard of the leader for a lease may lead by now, and who stood still is not in sync.
            leader = fleet.leader()
            answer = fleet.http(leader).post("/v1/broker/switch", json={"replica": 1 - leader})
            led[:] = [answer.json()["leader"]] if answer.is_success else []
            return led == [1 - leader]

        wait_until(switches)
        (to,) = led
        wait_until(lambda: role_of(fleet.http(to)) == "primary")
        assert sorted(each["body"] for each in pull_all(fleet.http(to), "t")) == ["0", "1"]


@begins_again_after(STILL_S)
def test_a_leader_that_stood_still_acknowledges_nothing_more_and_follows(tmp_path: Path) -> None:
    with replicas(tmp_path, **PATIENT) as fleet, ThreadPoolExecutor(1) as pool:
        put_topic(fleet.http(0), "t")
        produce(fleet.http(0), "t", "before")
        with stopped(fleet.running[0]):
            late = pool.submit(fleet.http(0).post, "/v1/topics/t/messages", json={"messages": [{"body": "late"}]})
            assert fleet.leader([1]) == 1
            (placed,) = produce(fleet.http(1), "t", "after")
        answer = late.result()
        assert not answer.is_success or answer.json()["messages"][0]["position"] > placed["position"], answer.text
        wait_until(lambda: role_of(fleet.http(0)) == "follower")
        fleet.in_sync(0, 1)
        shown_by(fleet.http(0), fleet.http(1))
        for each in (0, 1):
            assert [each["body"] for each in pull_all(fleet.http(each), "t")] == ["before", "after"]


@begins_again_after(STILL_S)
def test_without_waiting_for_followers_a_leader_that_stood_still_takes_nothing_by_a_lease_that_ran_out(
    tmp_path: Path,
) -> None:
    with replicas(tmp_path, **ELECTED) as fleet, ThreadPoolExecutor(4) as pool:
        put_topic(fleet.http(0), "t")
        wait_for(fleet.http(1), fleet.http(0))
        with stopped(fleet.running[0]):
            asked = [pool.submit(fleet.http(0).post, "/v1/topics/t/messages", content=b"late") for _ in range(4)]
            assert fleet.leader([1]) == 1
        for each in asked:
            answer = each.result()
            assert answer.json()["code"] in ("not_confirmed", "not_leader", "store_unwritable", "busy"), answer.text
        wait_until(lambda: role_of(fleet.http(0)) == "follower")
        fleet.in_sync(0, 1)


@begins_again_after(STILL_S)
def test_of_three_another_goes_on_with_whom_it_has_and_all_end_with_the_same_log(tmp_path: Path) -> None:
    with replicas(tmp_path, count=3, **PATIENT) as fleet:
        urls = [fleet.running[each].url for each in range(3)]
        with Load(urls, "t") as load:
            load.wait_for_more(20)
            for _ in range(2):
                gone = fleet.leader()
                fleet.kill(gone)
                load.wait_for_more(20)
                fleet.start(gone)
                fleet.in_sync(0, 1, 2)
        leader = fleet.leader()
        for each in range(3):
            shown_by(fleet.http(each), fleet.http(leader))
        bodies = [sorted(each["body"] for each in pull_all(fleet.http(replica), "t")) for replica in range(3)]
        assert bodies[0] == bodies[1] == bodies[2]
        assert len(set(bodies[0])) == len(bodies[0])
        assert set(load.acknowledged) <= set(bodies[0])


@begins_again_after(STILL_S)
def test_all_that_end_at_once_come_back_with_what_was_acknowledged(tmp_path: Path) -> None:
    with replicas(tmp_path, **PATIENT) as fleet:
        produce(fleet.http(0), "t", "0")
        for each in (0, 1):
            fleet.kill(each)
        fleet.start(1)
        assert fleet.leader() == 1  # in a later life of its folder it is the member still
        fleet.start(0)
        fleet.in_sync(0, 1)
        assert [each["body"] for each in pull_all(fleet.http(1), "t")] == ["0"]


@begins_again_after(STILL_S)
def test_after_all_were_stopped_in_order_who_led_last_leads_and_the_others_say_who_that_is(tmp_path: Path) -> None:
    with replicas(tmp_path, **PATIENT) as fleet:
        epoch = broker_of(fleet.http(0))["epoch"]
        fleet.stop(1)
        fleet.in_sync(0)
        produce(fleet.http(0), "t", "without the other")
        fleet.stop(0)
        waits = fleet.start(1)
        wait_until(lambda: role_of(waits) == "follower")
        assert broker_of(waits)["election"]["leader"] == 0
        assert is_problem(waits.post("/v1/topics/t/messages", json={"messages": [{"body": "x"}]}), 421, "not_leader")
        fleet.start(0)
        fleet.in_sync(0, 1)
        assert (fleet.leader(), broker_of(fleet.http(0))["epoch"]) == (0, epoch + 1)
        shown_by(waits, fleet.http(0))
        assert [each["body"] for each in pull_all(waits, "t")] == ["without the other"]


@begins_again_after(STILL_S)
def test_who_is_not_in_sync_leads_only_by_order(tmp_path: Path) -> None:
    with replicas(tmp_path, **SYNC, auth__audit="true") as fleet:
        produce(fleet.http(0), "t", "both")
        wait_for(fleet.http(1), fleet.http(0))
        assert is_problem(fleet.http(1).post("/v1/broker/elect", json={"unclean": True}), 409, "leader_lives")
        fleet.kill(1)
        fleet.in_sync(0)
        produce(fleet.http(0), "t", "one alone")
        assert "replica 1 is no longer in sync" in degraded(fleet.http(0))
        fleet.stop(0)
        follower = fleet.start(1)
        wait_until(lambda: role_of(follower) == "follower")
        wait_until(lambda: follower.post("/v1/broker/elect", json={"unclean": True}).is_success)
        wait_until(lambda: role_of(follower) == "primary")
        # The other may have told of what this one lacks, whatever it was told before it was let go.
        assert broker_of(follower)["max_position"] > 2**32 - 1
        assert [each["body"] for each in pull_all(follower, "t")] == ["both"]
        # What is urgent isn't held up by its record, which comes as soon as the log takes one.
        wait_until(lambda: any("POST /v1/broker/elect" in each["body"] for each in pull_all(follower, AUDIT_TOPIC)))
        again = fleet.start(0)
        wait_until(lambda: role_of(again) == "follower")
        wait_until(lambda: "may not be below" in str(broker_of(again)["follower_fault"]))
        assert [each["body"] for each in pull_all(again, "t")] == ["both", "one alone"]  # for whoever wants it back


@begins_again_after(STILL_S)
def test_who_is_gone_for_good_is_forgotten(tmp_path: Path) -> None:
    with replicas(tmp_path, **SYNC) as fleet:
        leader = fleet.http(0)
        assert is_problem(leader.post("/v1/broker/remove", json={"replica": 1}), 400, "invalid_request")
        assert is_problem(leader.post("/v1/broker/remove", json={"replica": 0}), 400, "invalid_request")
        fleet.kill(1)
        wait_until(lambda: "replica 1 is no longer in sync" in degraded(leader))
        assert leader.post("/v1/broker/remove", json={"replica": 1}).json() == {"removed": 1, "in_sync": [0]}
        assert degraded(leader) == ""
