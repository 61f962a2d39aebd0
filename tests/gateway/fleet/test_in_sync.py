"""A primary that waits for its followers: what it answers is on all disks in sync, and nobody is shown more."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from lakemq.gateway.fleet.confirmed_mark import ConfirmedMark
from lakemq.model.errors import SettingsError
from lakemq.settings import load
from lakemq.storage.disk.files import Files
from lakemq.testing import GatewayProcess, start_gateway
from tests.gateway.fleet.following import SMALL, broker_of, degraded, frames_of, start_follower, stopped, wait_for
from tests.gateway.http_client import connect, is_problem, produce, pull, pull_all, put_topic
from tests.gateway.receive.asking import ack, receive
from tests.gateway.routing.asking import begin, resolve, wait_until
from tests.gateway.sinks.asking import commit, put_part

SYNC = {**SMALL, "replication__ack": "sync", "replication__silent_ms": 2_000, "replication__confirm_ms_max": 100_000}
"""A primary that waits."""
PATIENT = {**SYNC, "replication__silent_ms": 90_000}
"""One that waits for a follower for longer than any of these tests takes."""
MIB = 1024 * 1024


class Fleet(NamedTuple):
    """A primary and its follower, which are in sync."""

    primary: GatewayProcess
    follower: GatewayProcess
    leads: httpx.Client
    follows: httpx.Client


@contextmanager
def fleet(directory: Path, **options: Any) -> Generator[Fleet]:
    """Start both, and wait until they are in sync."""
    with (
        start_gateway(directory / "primary", **options) as primary,
        start_follower(directory / "follower", primary.url) as follower,
        connect(primary) as leads,
        connect(follower) as follows,
    ):
        wait_until(lambda: in_sync(leads) == [0, 1])
        yield Fleet(primary, follower, leads, follows)


@contextmanager
def waiting(ask: Callable[[], Any]) -> Generator[Future[Any]]:
    """A request that is held."""
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(ask)


def in_sync(http: httpx.Client) -> list[int]:
    return broker_of(http)["in_sync"]


def test_who_joins_is_in_sync_before_its_own_time_to_flush_has_come(tmp_path: Path) -> None:
    """Nobody waits for it where the primary doesn't."""
    with start_gateway(tmp_path / "primary", **SMALL) as primary, connect(primary) as leads:
        produce(leads, "t", "a", "b")
        with start_follower(tmp_path / "follower", primary.url, storage__flush_interval_ms=60_000):
            wait_until(lambda: in_sync(leads) == [0, 1])


def sent(http: httpx.Client, body: str, **fields: Any) -> bool:
    """Whether the message is there now, once: where the follower stood still it may have to be sent again."""
    message = {"messages": [{"body": body, **fields}]}
    return http.post("/v1/topics/t/messages", json=message, headers={"Idempotency-Key": body}).is_success


def is_on_both_disks(both: Fleet) -> bool:
    """Whether a message that is answered is at the follower too, which it isn't while that is let go."""
    (placed,) = produce(both.leads, "t", "both again")
    return broker_of(both.follows)["flushed_position"] > placed["position"]


def recorded(directory: Path) -> list[int]:
    """Who is in sync, as the primary of that folder has written it down."""
    return list(lives(directory))


def lives(directory: Path) -> dict[int, str]:
    """The incarnations of those, by replica."""
    record = json.loads((directory / "IN_SYNC").read_bytes().partition(b"\n")[0])
    return dict(record["members"])


def written(http: httpx.Client, position: int) -> bool:
    """Whether the log has it on disk, while it isn't confirmed."""
    said = broker_of(http)
    return said["confirmed_position"] <= position < said["flushed_position"]


def number(http: httpx.Client, name: str) -> float:
    """One of its metrics."""
    lines = [line for line in http.get("/metrics").text.splitlines() if line.startswith(f"{name} ")]
    return float(lines[0].split()[1])


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet(tmp_path_factory.mktemp("pair"), **PATIENT) as both:
        yield both


def test_what_is_answered_is_on_both_disks(pair: Fleet) -> None:
    for each in range(20):
        (placed,) = produce(pair.leads, "both", str(each))
        assert broker_of(pair.follows)["flushed_position"] > placed["position"]
        assert broker_of(pair.leads)["confirmed_position"] > placed["position"]


def test_a_raw_message_is_answered_when_it_is_on_both_disks_too(pair: Fleet) -> None:
    for each in range(20):
        placed = pair.leads.post("/v1/topics/raw/messages", content=b"%d" % each).json()["messages"][0]
        assert broker_of(pair.follows)["flushed_position"] > placed["position"]


def test_both_say_who_is_in_sync_and_how_far(pair: Fleet) -> None:
    end = wait_for(pair.follows, pair.leads)
    wait_until(lambda: broker_of(pair.follows)["confirmed_position"] >= end)
    wait_until(lambda: in_sync(pair.follows) == [0, 1])
    leads, follows = broker_of(pair.leads), broker_of(pair.follows)
    assert (leads["in_sync"], follows["in_sync"]) == ([0, 1], [0, 1])
    assert leads["replication"] | {"record_version": 0} == {"ack": "sync", "min_in_sync": 1, "record_version": 0}
    assert leads["confirmed_position"] == leads["flushed_position"] == leads["positions"]["confirmed_position"]
    assert number(pair.leads, "lakemq_in_sync_replicas") == 2
    assert number(pair.leads, "lakemq_too_few_replicas") == 0
    assert number(pair.leads, "lakemq_confirmed_position") == leads["confirmed_position"]
    assert degraded(pair.leads) == ""


def test_nothing_is_answered_shown_or_handed_out_before_it_is_confirmed(pair: Fleet) -> None:
    leads = pair.leads
    put_topic(leads, "shown")
    produce(leads, "shown", "0", "1")
    wait_for(pair.follows, leads)
    handed_out = receive(leads, "early", "shown", max=1)
    with stopped(pair.follower):
        before = broker_of(leads)["confirmed_position"]
        with waiting(lambda: produce(leads, "shown", "2")) as producing:
            wait_until(lambda: written(leads, before))
            assert [each["body"] for each in pull(leads, "shown", 0, 0)["messages"]] == ["0", "1"]
            answer = pull(leads, "shown", 0, 2)
            assert (answer["status"], answer["max_offset"]) == ("no_new_message", 2)
            assert pull(leads, "shown", 0, 3)["status"] == "no_new_message"  # it may be there
            assert pull(leads, "shown", 0, 4)["status"] == "offset_out_of_range"
            offsets = {"offsets": [{"topic": "shown", "queue_id": 0, "offset": 9}]}
            refused = [
                leads.put("/v1/groups/early/offsets", json=offsets),
                leads.put("/v1/broker/compacted", json={"compacted_position": 10**6}),
                leads.post("/v1/log/erasures", json={"positions": [10**6]}),
            ]
            ends = [re.search(r"ends (?:at offset|with position) (\d+)", each.json()["detail"]) for each in refused]
            assert [end and end[1] for end in ends] == ["2", str(before), str(before)]
            assert leads.get("/v1/topics/shown").json()["queues"][0]["max_offset"] == 2
            identity = broker_of(leads)
            unseen = leads.get(f"/v1/messages/{handed_out[0]['message_id']}").json()
            own_id = f"{unseen['message_id'].removesuffix(str(unseen['position']))}{before}"
            assert is_problem(leads.get(f"/v1/messages/{own_id}"), 404, "message_not_found")
            # A job, and whoever else reads the log, is told of what is confirmed.
            frames = leads.get("/v1/log/frames", params={"from": before})
            assert (frames.content, frames.headers["lakemq-confirmed-position"]) == (b"", str(before))
            assert frames.headers["lakemq-ack"] == "sync"  # for a follower that another has replaced
            assert leads.get("/v1/log/end", params={"from": 0}).json()["end_position"] == before
            rows = leads.get("/v1/log/messages", params={"from": 0, "to": identity["max_position"]})
            assert rows.headers["lakemq-next-position"] == str(before)
            with waiting(lambda: ack(leads, "early", *handed_out)) as acknowledging:
                wait_until(lambda: broker_of(leads)["flushed_position"] >= before + 2)
                with waiting(lambda: leads.get("/v1/groups/early/offsets").json()) as asking:
                    assert [each.done() for each in (producing, acknowledging, asking)] == [False] * 3
                    os.kill(pair.follower.pid, signal.SIGCONT)
                    assert asking.result() == {"offsets": []}
                assert acknowledging.result() == ["ok"]
            assert producing.result()[0]["queue_offset"] == 2
    assert [each["body"] for each in pull(leads, "shown", 0, 0)["messages"]] == ["0", "1", "2"]


def test_who_waits_for_a_message_gets_it_when_it_is_confirmed_at_either(pair: Fleet) -> None:
    put_topic(pair.leads, "awaited")
    wait_for(pair.follows, pair.leads)
    with ThreadPoolExecutor(2) as pool:
        held = [pool.submit(pull, http, "awaited", 0, 0, wait_ms=50_000) for http in (pair.leads, pair.follows)]
        wait_until(lambda: number(pair.follows, "lakemq_waiting_requests") >= 1)
        (placed,) = produce(pair.leads, "awaited", "here")
        for each in held:
            assert [message["message_id"] for message in each.result()["messages"]] == [placed["message_id"]]


def test_transactions_groups_and_receipts_work_as_on_a_lone_broker(pair: Fleet) -> None:
    leads = pair.leads
    put_topic(leads, "ends")
    committed, rolled_back = begin(leads, "ends", "committed", "rolled back")
    assert resolve(leads, committed, "commit").status_code == 200
    assert resolve(leads, rolled_back, "rollback").status_code == 200
    produce(leads, "ends", {"body": "later", "delay_ms": 50})
    wait_until(lambda: [each["body"] for each in pull_all(leads, "ends")] == ["committed", "later"])
    leads.post("/v1/groups/g/members/one/heartbeat", json={}).raise_for_status()
    offsets = {"offsets": [{"topic": "ends", "queue_id": 0, "offset": 1}]}
    assert leads.put("/v1/groups/g/offsets", json=offsets).json() == offsets
    assert ack(leads, "r", *receive(leads, "r", "ends", max=2)) == ["ok", "ok"]
    end = wait_for(pair.follows, leads)
    wait_until(lambda: broker_of(pair.follows)["confirmed_position"] >= end)
    assert frames_of(pair.follows) == frames_of(leads)
    assert pull_all(pair.follows, "ends") == pull_all(leads, "ends")


def test_where_the_set_can_not_be_written_down_nothing_is_answered_without_its_member(tmp_path: Path) -> None:
    options = {**SYNC, "replication__silent_ms": 500, "replication__confirm_ms_max": 501}
    body, key = {"messages": [{"body": "once"}]}, {"Idempotency-Key": "k"}
    with fleet(tmp_path, **options) as both:
        wait_until(lambda: both.leads.put("/v1/topics/t", json={"queues": 1}).is_success)
        staged = put_part(both.leads, "s", 0, "p", ["part"], topic="t")
        assert staged.status_code == 200
        obstacle = tmp_path / "primary" / "IN_SYNC.tmp"

        def both_stay() -> bool:
            try:
                obstacle.mkdir()
            except FileExistsError:
                return False  # one is being written
            if recorded(tmp_path / "primary") == in_sync(both.leads) == [0, 1]:
                return True
            obstacle.rmdir()
            return False

        wait_until(both_stay)
        with stopped(both.follower):
            answer = both.leads.post("/v1/topics/t/messages", json=body, headers=key)
            assert is_problem(answer, 504, "not_confirmed")
            assert "it may be stored" in answer.json()["detail"]
            for _ in range(4):  # at last it is no news, and who asks may be the one who was told 504
                assert is_problem(commit(both.leads, "s", 0, "p"), 504, "not_confirmed")
            assert is_problem(put_part(both.leads, "s", 0, "p", ["part"], topic="t"), 504, "not_confirmed")
            assert is_problem(both.leads.get("/v1/sinks/s"), 504, "not_confirmed")
            assert pull_all(both.leads, "t") == []
            assert in_sync(both.leads) == [0, 1]
            assert "who is in sync can't be written down" in degraded(both.leads)
            obstacle.rmdir()
            wait_until(lambda: in_sync(both.leads) == [0])
            again = both.leads.post("/v1/topics/t/messages", json=body, headers=key)
            assert again.status_code == 200
            assert commit(both.leads, "s", 0, "p").json()["new"] is False
            assert [each["body"] for each in pull_all(both.leads, "t")] == ["once", "part"]


def test_a_primary_that_stops_tells_who_waits_and_lets_nobody_go(tmp_path: Path) -> None:
    with fleet(tmp_path, **PATIENT) as both:
        put_topic(both.leads, "t")
        with stopped(both.follower):
            before = broker_of(both.leads)["confirmed_position"]
            with waiting(lambda: both.leads.post("/v1/topics/t/messages", content=b"not yet")) as held:
                wait_until(lambda: written(both.leads, before))
                both.primary.stop()
                assert is_problem(held.result(), 504, "not_confirmed")
    assert recorded(tmp_path / "primary") == [0, 1]


def test_no_state_is_shown_of_what_is_not_confirmed(tmp_path: Path) -> None:
    with fleet(tmp_path, **PATIENT) as both:
        put_topic(both.leads, "t")
        with stopped(both.follower):
            end = broker_of(both.leads)["max_position"]
            for number, body in enumerate((b"x" * 2 * MIB, b"in the next segment")):
                query = {"ack": "none"}
                both.leads.post("/v1/topics/t/messages", content=body, params=query).raise_for_status()
                wait_until(lambda at=end + number: broker_of(both.leads)["flushed_position"] > at)
            state = both.leads.get("/v1/log/frames", params={"from": end + 1, "state": "yes"})
            assert (state.status_code, state.content) == (200, b"")


def test_a_follower_that_stands_still_is_let_go_and_comes_back(tmp_path: Path) -> None:
    with fleet(tmp_path, **SYNC) as both:
        produce(both.leads, "t", "both")
        with stopped(both.follower):
            (placed,) = produce(both.leads, "t", "one")  # answered once the set has shrunk
            assert in_sync(both.leads) == [0]
            assert degraded(both.leads) == "replica 1 is no longer in sync"
            assert number(both.leads, "lakemq_in_sync_replicas") == 1
            assert broker_of(both.leads)["confirmed_position"] > placed["position"]
            # It says so on its disk too: what it confirms alone is never to be cut for a follower that lacks it.
            log_id, mark = broker_of(both.leads)["log_id"], ConfirmedMark(Files(), tmp_path / "primary")
            wait_until(lambda: mark.read(log_id).position > placed["position"])
        wait_until(lambda: in_sync(both.leads) == [0, 1])
        wait_until(lambda: degraded(both.leads) == "")
        wait_until(lambda: is_on_both_disks(both))


def test_with_too_few_in_sync_nothing_is_written_and_reads_go_on(tmp_path: Path) -> None:
    with fleet(tmp_path, **SYNC, replication__min_in_sync=2) as both:
        wait_until(lambda: sent(both.leads, "both"))
        with stopped(both.follower):
            body = {"messages": [{"body": "one"}]}
            early = both.leads.post("/v1/topics/t/messages", json=body)
            assert is_problem(early, 503, "not_enough_replicas")  # it was written: who waited for the other is told
            end = broker_of(both.leads)["max_position"]
            assert is_problem(both.leads.post("/v1/topics/t/messages", json=body), 503, "not_enough_replicas")
            raw = both.leads.post("/v1/topics/t/messages", content=b"raw")
            assert is_problem(raw, 503, "not_enough_replicas")
            assert int(raw.headers["retry-after"]) > 0
            assert is_problem(both.leads.put("/v1/topics/new", json={}), 503, "not_enough_replicas")
            assert broker_of(both.leads)["max_position"] == end
            assert "nothing is written: 1 of the broker's replicas are in sync" in degraded(both.leads)
            assert number(both.leads, "lakemq_too_few_replicas") == 1
            assert [each["body"] for each in pull_all(both.leads, "t")] == ["both", "one"]
        wait_until(lambda: sent(both.leads, "both again"))
        wait_until(lambda: degraded(both.leads) == "")


def test_what_is_due_while_too_few_are_in_sync_waits_for_them_over_a_start_too(tmp_path: Path) -> None:
    options = {**SYNC, "replication__min_in_sync": 2, "routing__clock_confirm_ms": 0, "routing__grace_ms": 100}
    with start_gateway(tmp_path / "primary", **options) as primary:
        later = {"clock_offset_ms": 7_200_000, "gateway__port": int(primary.url.rpartition(":")[2]), **options}
        with connect(primary) as leads, start_follower(tmp_path / "follower", primary.url) as follower:
            wait_until(lambda: sent(leads, "0") and sent(leads, "due", delay_ms=3_600_000))
            with stopped(follower):
                wait_until(lambda: in_sync(leads) == [0])
                primary.kill()
                again = start_gateway(tmp_path / "primary", **later)
                with connect(again) as leads:
                    wait_until(lambda: broker_of(leads)["overdue"] == 1)
                    assert "nothing is written" in degraded(leads)
                    assert number(leads, "lakemq_writable") == 0
                    assert [each["body"] for each in pull_all(leads, "t")] == ["0"]
            with again, connect(again) as leads:
                wait_until(lambda: [each["body"] for each in pull_all(leads, "t")] == ["0", "due"])
                wait_until(lambda: in_sync(leads) == [0, 1])


def test_a_follower_counts_again_once_it_has_the_primarys_new_epoch(tmp_path: Path) -> None:
    options = {**PATIENT, "storage__memory_survives": False}  # so each end is a loss, maybe
    with start_gateway(tmp_path / "primary", **options) as primary:
        port = int(primary.url.rpartition(":")[2])
        with connect(primary) as leads, start_follower(tmp_path / "follower", primary.url) as follower:
            wait_until(lambda: in_sync(leads) == [0, 1])
            produce(leads, "t", "0")
            before = broker_of(leads)
            primary.kill()
            with start_gateway(tmp_path / "primary", gateway__port=port, **options) as again, connect(again) as leads:
                (placed,) = produce(leads, "t", "1")
                now = broker_of(leads)
                assert now["epoch"] > before["epoch"]
                assert (now["in_sync"], now["confirmed_position"] > placed["position"]) == ([0, 1], True)
                with connect(follower) as follows:
                    assert broker_of(follows)["epoch"] == now["epoch"]
                    assert broker_of(follows)["flushed_position"] > placed["position"]
                assert [each["body"] for each in pull_all(leads, "t")] == ["0", "1"]


def test_a_primary_alone_writes_nothing_where_two_have_to_be_in_sync(tmp_path: Path) -> None:
    with start_gateway(tmp_path / "primary", **SYNC, replication__min_in_sync=2) as gateway, connect(gateway) as http:
        assert is_problem(http.put("/v1/topics/t", json={}), 503, "not_enough_replicas")
        assert http.get("/readyz").json()["status"] == "ready"
        assert broker_of(http)["max_position"] == 0


def test_a_follower_whose_place_another_takes_says_so_and_takes_it_back_with_a_start(tmp_path: Path) -> None:
    with start_gateway(tmp_path / "primary", **PATIENT) as primary, connect(primary) as leads:
        with start_follower(tmp_path / "follower", primary.url) as follower, connect(follower) as follows:
            wait_until(lambda: in_sync(leads) == [0, 1])
            produce(leads, "t", "what the twin lacks")
            twin = {"replica": 1, "incarnation": "twin", "durable": 0, "epoch": broker_of(leads)["epoch"]}
            leads.get("/v1/log/frames", params={"from": 0, **twin}).raise_for_status()
            wait_until(lambda: in_sync(leads) == [0])

            def says_so() -> bool:
                produce(leads, "t", "0")  # its question is answered
                return degraded(follows).startswith("another one has come as replica 1")

            wait_until(says_so)
        with start_follower(tmp_path / "follower", primary.url) as follower, connect(follower) as follows:
            wait_until(lambda: in_sync(leads) == [0, 1])
            (placed,) = produce(leads, "t", "1")
            assert broker_of(follows)["flushed_position"] > placed["position"]
            assert degraded(follows) == ""


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_follower_that_ended_comes_back_as_who_it_was_only_after_a_clean_stop(tmp_path: Path, end: str) -> None:
    with start_gateway(tmp_path / "primary", **PATIENT) as primary, connect(primary) as leads:
        follower = start_follower(tmp_path / "follower", primary.url)
        wait_until(lambda: in_sync(leads) == [0, 1])
        produce(leads, "t", "0")
        version, life = broker_of(leads)["replication"]["record_version"], lives(tmp_path / "primary")[1]
        follower.kill() if end == "kill" else follower.stop()
        with start_follower(tmp_path / "follower", primary.url) as again, connect(again) as follows:
            (placed,) = produce(leads, "t", "1")
            wait_until(lambda: in_sync(leads) == [0, 1])
            wait_for(follows, leads)
            # Out as who it was, and in again: as another, or as the same.
            assert broker_of(leads)["replication"]["record_version"] == version + 2
            assert (lives(tmp_path / "primary")[1] == life) == (end == "stop")
            wait_until(lambda: broker_of(follows)["flushed_position"] > placed["position"])
            assert frames_of(follows) == frames_of(leads)


def test_a_primary_that_starts_again_shows_what_was_confirmed_and_the_rest_when_its_follower_has_it(
    tmp_path: Path,
) -> None:
    with start_gateway(tmp_path / "primary", **PATIENT) as primary:
        port = int(primary.url.rpartition(":")[2])
        with connect(primary) as leads, start_follower(tmp_path / "follower", primary.url) as follower:
            wait_until(lambda: in_sync(leads) == [0, 1])
            put_topic(leads, "t")
            produce(leads, "t", "confirmed")
            os.kill(follower.pid, signal.SIGSTOP)
            before = broker_of(leads)["confirmed_position"]
            with waiting(lambda: leads.post("/v1/topics/t/messages", content=b"not yet")) as producing:
                wait_until(lambda: written(leads, before))
                mark = tmp_path / "primary" / "CONFIRMED"
                wait_until(lambda: mark.exists() and f'"position": {before}' in mark.read_text())
                primary.kill()
                assert isinstance(producing.exception(), httpx.TransportError)
            with start_gateway(tmp_path / "primary", gateway__port=port, **PATIENT) as again, connect(again) as leads:
                assert in_sync(leads) == [0, 1]
                assert [each["body"] for each in pull_all(leads, "t")] == ["confirmed"]
                os.kill(follower.pid, signal.SIGCONT)
                wait_until(lambda: [each["body"] for each in pull_all(leads, "t")] == ["confirmed", "not yet"])
                (placed,) = produce(leads, "t", "both")
                with connect(follower) as follows:
                    assert broker_of(follows)["flushed_position"] > placed["position"]


def test_a_follower_shows_no_more_than_is_confirmed_also_after_a_start_without_its_primary(tmp_path: Path) -> None:
    with start_gateway(tmp_path / "primary", **PATIENT) as primary, connect(primary) as leads:
        put_topic(leads, "t")
        with (
            start_follower(tmp_path / "one", primary.url) as first,
            connect(first) as follows,
            start_gateway(tmp_path / "two", broker__replica=2, fleet__primary=primary.url, **SMALL) as second,
        ):
            wait_until(lambda: in_sync(leads) == [0, 1, 2])
            produce(leads, "t", "confirmed")
            start = {"offsets": [{"topic": "t", "queue_id": 0, "offset": 0}]}
            leads.put("/v1/groups/g/offsets", json=start).raise_for_status()
            with stopped(second), waiting(lambda: leads.post("/v1/topics/t/messages", content=b"not yet")) as held:
                wait_until(lambda: broker_of(follows)["max_position"] > broker_of(leads)["confirmed_position"])
                assert [each["body"] for each in pull_all(follows, "t")] == ["confirmed"]
                assert pull(follows, "t", 0, 1)["status"] == "no_new_message"
                assert follows.get("/v1/groups/g").json()["lag_total"] == 1
                primary.kill()
                wait_until(lambda: "can't be followed now" in degraded(follows))
                assert isinstance(held.exception(), httpx.TransportError)
            first.kill()
        with start_follower(tmp_path / "one", primary.url) as again, connect(again) as follows:
            assert [each["body"] for each in pull_all(follows, "t")] == ["confirmed"]
            assert broker_of(follows)["max_position"] > broker_of(follows)["confirmed_position"]


def test_under_async_only_who_asks_for_it_waits_and_jobs_see_what_is_confirmed(tmp_path: Path) -> None:
    options = {**PATIENT, "replication__ack": "async"}
    with fleet(tmp_path, **options) as both:
        put_topic(both.leads, "t")
        (placed,) = produce(both.leads, "t", "waits", ack="sync")
        assert broker_of(both.follows)["flushed_position"] > placed["position"]
        with stopped(both.follower):
            before = broker_of(both.leads)["confirmed_position"]
            (placed,) = produce(both.leads, "t", "does not wait")
            assert [each["body"] for each in pull_all(both.leads, "t")] == ["waits", "does not wait"]
            assert both.leads.get("/v1/log/end", params={"from": 0}).json()["end_position"] == before
            raw = both.leads.post
            with waiting(lambda: raw("/v1/topics/t/messages", content=b"waits", params={"ack": "sync"})) as held:
                wait_until(lambda: written(both.leads, placed["position"] + 1))
                assert not held.done()
                os.kill(both.follower.pid, signal.SIGCONT)
                assert held.result().status_code == 200
        end = broker_of(both.leads)["max_position"]
        wait_until(lambda: both.leads.get("/v1/log/end", params={"from": 0}).json()["end_position"] == end)


def test_a_lone_primary_confirms_what_it_has_on_disk_and_keeps_no_record(tmp_path: Path) -> None:
    with start_gateway(tmp_path / "data", **SMALL) as gateway, connect(gateway) as http:
        produce(http, "t", "0", ack="sync")
        said = broker_of(http)
        assert (said["in_sync"], said["confirmed_position"]) == ([0], said["max_position"])
        assert not {"IN_SYNC", "CONFIRMED", "REPLICA"} & {each.name for each in (tmp_path / "data").iterdir()}


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"replica": 1}, "incarnation"),
        ({"replica": 1, "incarnation": "a b", "durable": 0, "epoch": 1}, "incarnation matches"),
        ({"durable": 0}, "lacks replica, incarnation, epoch"),
        ({"replica": 256, "incarnation": "x", "durable": 0, "epoch": 1}, "replica is 256"),
        ({"replica": 1, "incarnation": "x", "epoch": 1}, "durable"),
        ({"replica": 1, "incarnation": "x", "durable": 0}, "epoch"),
    ],
)
def test_a_follower_that_says_too_little_is_told_so(pair: Fleet, query: dict[str, Any], said: str) -> None:
    answer = pair.leads.get("/v1/log/frames", params={"from": 0, **query})
    assert is_problem(answer, 400, "invalid_request")
    assert said in answer.json()["detail"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"replication": {"ack": "some"}}, "replication.ack"),
        ({"replication": {"min_in_sync": 0}}, "replication.min_in_sync"),
        ({"replication": {"silent_ms": 5_000, "confirm_ms_max": 5_000}}, "replication.confirm_ms_max is 5000"),
    ],
)
def test_what_can_not_be_kept_is_refused_before_anything_starts(options: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        load(environment={}, options=options)
