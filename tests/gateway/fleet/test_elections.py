"""Who leads where leaders are elected: who begins, who is refused, and what an exchange of brokers leaves behind."""

from __future__ import annotations

import shutil
from pathlib import Path

import httpx

from lakemq.testing import start_nameserver
from tests.gateway.fleet.electing import PATIENT, STILL_S, Replicas, replicas, role_of
from tests.gateway.fleet.following import broker_of, degraded, wait_for
from tests.gateway.http_client import is_problem, produce, pull_all
from tests.gateway.routing.asking import wait_until
from tests.standstill import begins_again_after


def ready(http: httpx.Client) -> str:
    """Why it isn't ready, or what is wrong."""
    return http.get("/readyz").text


@begins_again_after(STILL_S)
def test_replica_0_begins_and_the_others_wait_for_that(tmp_path: Path) -> None:
    fleet = Replicas(tmp_path, **PATIENT)
    try:
        waits = fleet.start(1)
        wait_until(lambda: "replica 0 begins one" in ready(waits))
        assert is_problem(waits.get("/readyz"), 503, "store_unwritable")
        assert waits.get("/healthz").json() == {"status": "up"}
        fleet.start(0)
        fleet.in_sync(0, 1)
        assert role_of(waits) == "follower"
        election = broker_of(waits)["election"]
        assert election == {"leader": 0, "leader_epoch": 1, "leader_address": fleet.running[0].url}
    finally:
        fleet.close()


@begins_again_after(STILL_S)
def test_who_goes_by_a_later_leader_is_sent_nothing_and_the_leader_looks_who_leads(tmp_path: Path) -> None:
    with replicas(tmp_path, count=1, **PATIENT) as fleet:
        leader = fleet.http(0)
        produce(leader, "t", "0")
        follower = {"from": 0, "replica": 1, "incarnation": "x", "durable": 0, "epoch": 1}
        assert is_problem(leader.get("/v1/log/frames", params={**follower, "seen_epoch": 2}), 409, "fenced")
        answer = leader.get("/v1/log/frames", params={**follower, "seen_epoch": 1})
        assert (answer.status_code, answer.headers["lakemq-leader-epoch"]) == (200, "1")
        assert produce(leader, "t", "1")  # it still leads


@begins_again_after(STILL_S)
def test_a_store_that_has_lost_who_led_is_not_believed(tmp_path: Path) -> None:
    with replicas(tmp_path, **PATIENT) as fleet:
        produce(fleet.http(0), "t", "0")
        wait_for(fleet.http(1), fleet.http(0))
        fleet.kill(0)
        assert fleet.leader() == 1
        produce(fleet.http(1), "t", "1")
        fleet.stop(1)
        shutil.rmtree(tmp_path / "store")
        (tmp_path / "store").mkdir()
        behind = fleet.start(0)  # by rule it would begin, and lacks what replica 1 has
        wait_until(lambda: role_of(behind) == "follower")
        assert "it has lost what it held" in degraded(behind)
        most = fleet.start(1)
        wait_until(lambda: role_of(most) == "follower")
        assert most.post("/v1/broker/elect", json={"unclean": True}).json()["leader"] == 1
        fleet.in_sync(0, 1)
        assert [each["body"] for each in pull_all(most, "t")] == ["0", "1"]
        wait_for(behind, most)
        assert role_of(behind) == "follower"


@begins_again_after(STILL_S)
def test_a_follower_says_that_it_can_not_see_who_leads_until_it_can_again(tmp_path: Path) -> None:
    with replicas(tmp_path, **PATIENT) as fleet:
        (tmp_path / "store").rename(tmp_path / "away")
        wait_until(lambda: "who leads can't be seen" in degraded(fleet.http(1)))
        (tmp_path / "away").rename(tmp_path / "store")
        wait_until(lambda: "who leads" not in degraded(fleet.http(1)))


@begins_again_after(STILL_S)
def test_a_leader_whose_log_is_gone_follows_a_member_that_has_all(tmp_path: Path) -> None:
    """As where the disk of the log isn't mounted: it led again within its lease, with a new log."""
    with replicas(tmp_path, **PATIENT) as fleet:
        produce(fleet.http(0), "t", "acknowledged")
        log_id = broker_of(fleet.http(0))["log_id"]
        fleet.kill(0)
        shutil.rmtree(tmp_path / "0" / "commitlog")
        fleet.start(0)
        assert fleet.leader([1]) == 1
        assert produce(fleet.http(1), "t", "by the next leader")
        fleet.in_sync(0, 1)
        assert broker_of(fleet.http(0))["log_id"] == log_id
        assert [each["body"] for each in pull_all(fleet.http(1), "t")] == ["acknowledged", "by the next leader"]


@begins_again_after(STILL_S)
def test_a_replica_0_that_has_nothing_begins_no_log_where_another_replica_has_one(tmp_path: Path) -> None:
    with start_nameserver() as names:
        port = int(names.url.rpartition(":")[2])
        with replicas(tmp_path, **PATIENT, fleet__nameservers=names.url) as fleet:
            produce(fleet.http(0), "t", "0")
            wait_for(fleet.http(1), fleet.http(0))
            fleet.stop(0)
            fleet.stop(1)
            for lost in ("store", "0"):
                shutil.rmtree(tmp_path / lost)
            (tmp_path / "store").mkdir()
            names.stop()
            empty = fleet.start(0)
            wait_until(lambda: "isn't known, so none is begun here" in ready(empty))
            fleet.stop(0)
            has_it = fleet.start(1)
            wait_until(lambda: role_of(has_it) == "follower")
            log_id = broker_of(has_it)["log_id"]
            with (
                start_nameserver(nameserver__port=port) as again,
                httpx.Client(base_url=again.url, timeout=60) as asked,
            ):
                wait_until(lambda: log_id in asked.get("/v1/cluster").text)
                empty = fleet.start(0)
                wait_until(lambda: f"replica 1 at {fleet.running[1].url} has the log {log_id}" in ready(empty))
                assert has_it.post("/v1/broker/elect", json={"unclean": True}).json()["leader"] == 1
                fleet.in_sync(0, 1)
                wait_for(empty, has_it)
                assert [each["body"] for each in pull_all(empty, "t")] == ["0"]


@begins_again_after(STILL_S)
def test_brokers_that_took_turns_leave_nothing_behind_and_name_servers_know_who_leads(tmp_path: Path) -> None:
    with start_nameserver() as names, httpx.Client(base_url=names.url, timeout=60) as asked:

        def led() -> list[tuple[int, str]]:
            brokers = asked.get("/v1/routes").json()["brokers"]
            return [(each["replica"], each["role"]) for broker in brokers for each in broker["replicas"]]

        with replicas(tmp_path, **PATIENT, fleet__nameservers=names.url) as fleet:
            produce(fleet.http(0), "t", "0")
            process = Path(f"/proc/{fleet.running[0].pid}")

            def size() -> tuple[int, int]:
                return len(list((process / "task").iterdir())), len(list((process / "fd").iterdir()))

            sizes: list[tuple[int, int]] = []
            for turn in range(6):
                to = 1 - turn % 2
                answer = fleet.http(1 - to).post("/v1/broker/switch", json={"replica": to})
                assert answer.is_success, answer.text
                wait_until(lambda to=to: sorted(led()) == sorted([(to, "primary"), (1 - to, "follower")]))
                fleet.in_sync(0, 1)
                sizes.append(size())
            threads, files = (max(each[:2]) for each in zip(*sizes, strict=True))
            # A question that is under way ends with its answer.
            wait_until(lambda: size()[0] <= threads + 2 and size()[1] <= files + 4)
            assert [each["body"] for each in pull_all(fleet.http(0), "t")] == ["0"]
