"""A follower keeps its primary's log, byte for byte, and serves what there is to read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from lakemq.testing import start_gateway
from tests.gateway.cold.lakes import wait_until_all_left
from tests.gateway.fleet.following import (
    SMALL,
    Pair,
    broker_of,
    degraded,
    frames_of,
    start_follower,
    start_pair,
    wait_for,
)
from tests.gateway.http_client import connect, is_problem, produce, produce_arrow, pull, pull_all, put_topic
from tests.gateway.receive.asking import ack, receive
from tests.gateway.routing.asking import begin, resolve, wait_until
from tests.ports import free_port


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with start_pair(tmp_path_factory.mktemp("pair")) as running:
        yield running


def all_kinds_of_traffic(http: httpx.Client, name: str) -> None:
    """Something of everything that a log can hold, and enough of it for some segments."""
    topic, gone, group = f"{name}-orders", f"{name}-gone", f"{name}-group"
    put_topic(http, topic, 3)
    for number in range(18):
        produce(http, topic, {"body": f"{number}" + "x" * 200_000, "keys": [f"{name}-{number}"], "tag": "T"})
    produce_arrow(http, topic, {"body": pa.array([b"%d" % row for row in range(500)], pa.binary())})
    produce(http, topic, {"body": "soon", "delay_ms": 30}, {"body": "in a month", "delay_ms": 30 * 86_400_000})
    committed, rolled_back, _ = begin(http, topic, "committed", "rolled back", "open")
    assert resolve(http, committed, "commit").status_code == 200
    assert resolve(http, rolled_back, "rollback").status_code == 200
    nacked = pull(http, topic)["messages"][0]["message_id"]
    nacks = {"client_id": "c", "messages": [{"message_id": nacked, "delay_level": -1}]}
    http.post(f"/v1/groups/{group}/nacks", json=nacks).raise_for_status()
    member = {"subscriptions": [{"topic": topic, "type": "tag", "expression": "T"}]}
    http.post(f"/v1/groups/{group}/members/c1/heartbeat", json=member).raise_for_status()
    offsets = {"offsets": [{"topic": topic, "queue_id": 1, "offset": 2}]}
    http.put(f"/v1/groups/{group}/offsets", json=offsets).raise_for_status()
    handed_out = receive(http, f"{name}-receives", topic, max=4)
    assert set(ack(http, f"{name}-receives", *handed_out[:2])) == {"ok"}
    produce(http, gone, "of a topic that goes")
    http.delete(f"/v1/topics/{gone}").raise_for_status()
    produce(http, gone, "of one that is made again")


def test_the_log_is_the_same_byte_for_byte_and_so_is_what_is_read_of_it(pair: Pair) -> None:
    primary, follower = pair.primary, pair.follower
    all_kinds_of_traffic(primary, "same")
    wait_until(lambda: any(each["body"] == "soon" for each in pull_all(primary, "same-orders")))
    frames = frames_of(primary)
    wait_for(follower, primary)
    assert frames_of(follower)[: len(frames)] == frames  # a member or a receipt may run out at any time
    assert len(frames) > 3 * 1024 * 1024
    assert pull_all(follower, "same-orders") == pull_all(primary, "same-orders")
    assert [each["body"] for each in pull_all(follower, "same-gone")] == ["of one that is made again"]
    (message,) = pull_all(follower, "same-gone")
    for path in (
        f"/v1/messages/{message['message_id']}",
        "/v1/messages?topic=same-orders&key=same-3",
        "/v1/groups/same-group/offsets",
        "/v1/groups/same-group/members",
        "/v1/topics/same-orders/queues/0/offset?timestamp_ms=0",
        "/v1/routing/pending?kind=delay",
        "/v1/log/messages?from=0&to=50",
    ):
        _say_the_same(pair, path, lambda response: response.content)
    for path in ("/v1/topics", "/v1/topics/same-orders"):
        _say_the_same(pair, path, lambda response: _but_expired(response.json()))
    _say_the_same(pair, "/v1/routing", httpx.Response.json)


def _but_expired(said: Any) -> Any:
    """Without what each broker counts of its own reads."""
    topics = said.get("topics", [said])
    return [{name: value for name, value in topic.items() if name != "expired"} for topic in topics]


def _say_the_same(pair: Pair, path: str, read: Callable[[httpx.Response], object]) -> None:
    """Both answer the same, once the follower is where its primary is."""

    def is_same() -> bool:
        theirs, own = pair.primary.get(path), pair.follower.get(path)
        assert (theirs.status_code, own.status_code) == (200, 200), own.text
        return read(own) == read(theirs)

    wait_until(is_same, f"{path} differs")


def test_a_follower_says_what_it_is_and_how_far_behind(pair: Pair) -> None:
    primary, follower = pair.primary, pair.follower
    produce(primary, "counted", *map(str, range(10)))
    end = wait_for(follower, primary)
    wait_until(lambda: broker_of(follower)["follower_lag"] == 0)
    said = broker_of(follower)
    assert (said["role"], said["replica"], said["primary"]) == ("follower", 1, pair.address)
    assert (said["max_position"] >= end, said["follower_fault"]) == (True, None)
    assert said["log_id"] == broker_of(primary)["log_id"]
    leads = broker_of(primary)
    assert (leads["role"], leads["replica"], "follower_lag" in leads) == ("primary", 0, False)
    assert degraded(follower) == ""
    assert "lakemq_following 1.0" in follower.get("/metrics").text
    wait_until(lambda: "lakemq_follower_lag 0.0" in follower.get("/metrics").text)
    assert "\nlakemq_follow" not in primary.get("/metrics").text  # it says what they are, and no value


def test_a_topic_is_configured_at_a_follower_as_at_its_primary(pair: Pair) -> None:
    primary, follower = pair.primary, pair.follower
    config = {"message_type": "fifo", "ttl_ms": 1, "message_bytes_max": 9}
    assert primary.put("/v1/topics/configured", json={"queues": 1, **config}).status_code == 201
    produce(primary, "configured", {"body": "x", "ordering_key": "k"})
    wait_for(follower, primary)
    shown = follower.get("/v1/topics/configured").json()
    assert {name: shown[name] for name in config} == config
    assert pull(follower, "configured", wait_ms=50)["messages"] == []
    assert primary.put("/v1/topics/configured", json={"ttl_ms": 0}).status_code == 200
    wait_for(follower, primary)
    assert [message["body"] for message in pull(follower, "configured")["messages"]] == ["x"]


def test_who_waits_at_a_follower_is_woken_by_what_the_primary_stores(pair: Pair) -> None:
    primary, follower = pair.primary, pair.follower
    put_topic(primary, "awaited")
    wait_for(follower, primary)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(pull, follower, "awaited", 0, 0, wait_ms=50_000)
        wait_until(lambda: "lakemq_waiting_requests 1.0" in follower.get("/metrics").text)
        produce(primary, "awaited", "here")
        assert [each["body"] for each in waiting.result()["messages"]] == ["here"]


def test_who_waits_for_a_group_is_woken_when_the_primary_moves_it(pair: Pair) -> None:
    primary, follower = pair.primary, pair.follower
    primary.post("/v1/groups/moves/members/one/heartbeat", json={}).raise_for_status()
    wait_for(follower, primary)
    known = follower.get("/v1/groups/moves/members").json()
    with ThreadPoolExecutor(1) as pool:
        query = {"generation": known["generation"], "wait_ms": 50_000}
        waiting = pool.submit(follower.get, "/v1/groups/moves/members", params=query)
        wait_until(lambda: "lakemq_waiting_requests 1.0" in follower.get("/metrics").text)
        primary.post("/v1/groups/moves/members/two/heartbeat", json={}).raise_for_status()
        assert waiting.result().json()["members"] == ["one", "two"]


def test_an_offset_beyond_a_followers_end_is_no_new_message(pair: Pair) -> None:
    primary, follower = pair.primary, pair.follower
    put_topic(primary, "ahead")
    produce(primary, "ahead", "0", "1")
    wait_for(follower, primary)
    answer = pull(follower, "ahead", 0, 5)
    assert (answer["status"], answer["next_offset"], answer["max_offset"]) == ("no_new_message", 5, 2)
    assert pull(primary, "ahead", 0, 5)["status"] == "offset_out_of_range"
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(pull, follower, "ahead", 0, 5, wait_ms=50_000)
        wait_until(lambda: "lakemq_waiting_requests 1.0" in follower.get("/metrics").text)
        produce(primary, "ahead", "2", "3", "4", "5")
        assert [each["body"] for each in waiting.result()["messages"]] == ["5"]


@pytest.mark.parametrize("whom", ["primary", "follower"])
def test_whoever_is_killed_goes_on_and_both_end_up_the_same(tmp_path: Path, whom: str) -> None:
    port = free_port()
    with (
        start_gateway(tmp_path / "primary", gateway__port=port, **SMALL) as primary,
        connect(primary) as leads,
        start_follower(tmp_path / "follower", primary.url) as follower,
    ):
        running = {"primary": primary, "follower": follower}
        put_topic(leads, "t", 2)
        for number in range(60):
            if number in (20, 40):
                running[whom].kill()
                if whom == "primary":
                    with connect(running["follower"]) as follows:
                        wait_until(lambda: "can't be followed now" in degraded(follows))
                        assert pull_all(follows, "t")
                running[whom] = (
                    start_gateway(tmp_path / "primary", gateway__port=port, **SMALL)
                    if whom == "primary"
                    else start_follower(tmp_path / "follower", primary.url)
                )
            produce(leads, "t", f"{number}" + "x" * 80_000)
        with connect(running["follower"]) as follows:
            wait_for(follows, leads)
            wait_until(lambda: not degraded(follows))
            assert frames_of(follows) == frames_of(leads)
            assert len(pull_all(follows, "t")) == 60
        for process in running.values():
            process.stop()


def test_a_follower_that_is_started_first_waits_for_its_primary(tmp_path: Path) -> None:
    port = free_port()
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(start_follower, tmp_path / "follower", f"http://127.0.0.1:{port}")
        with (
            start_gateway(tmp_path / "primary", gateway__port=port, **SMALL) as primary,
            starting.result() as follower,
            connect(primary) as leads,
            connect(follower) as follows,
        ):
            assert frames_of(follows) == b""
            produce(leads, "t", "x")
            wait_for(follows, leads)
            assert frames_of(follows) == frames_of(leads) != b""


def test_a_followers_folder_begins_as_a_primary_beyond_all_that_was_given(tmp_path: Path) -> None:
    with start_gateway(tmp_path / "primary", **SMALL) as primary, connect(primary) as leads:
        (old,) = produce(leads, "t", "both")
        with start_follower(tmp_path / "follower", primary.url) as follower, connect(follower) as follows:
            end = wait_for(follows, leads)
        (lost,) = produce(leads, "t", "the old primary alone")
    with start_gateway(tmp_path / "follower", **SMALL) as gateway, connect(gateway) as http:
        (new,) = produce(http, "t", "new")
        assert new["position"] > end + 1
        assert [each["body"] for each in pull_all(http, "t")] == ["both", "new"]
        assert http.get(f"/v1/messages/{old['message_id']}").status_code == 200
        assert is_problem(http.get(f"/v1/messages/{lost['message_id']}"), 404, "message_not_found")
        assert broker_of(http)["epoch"] > 1


def test_a_follower_that_comes_late_begins_where_the_primarys_log_begins(tmp_path: Path) -> None:
    options = {**SMALL, "storage__retention_ms": 0, "storage__compacted_grace_ms": 0, "lake__verify": 0}
    with start_gateway(tmp_path / "primary", **options) as primary, connect(primary) as leads:
        put_topic(leads, "t", 2)
        placed = [produce(leads, "t", f"{number}" + "x" * 600_000)[0] for number in range(6)]
        told = {"compacted_position": placed[-1]["position"]}
        leads.put("/v1/broker/compacted", json=told).raise_for_status()
        assert wait_until_all_left(leads, tmp_path / "primary") > 0
        with start_follower(tmp_path / "follower", primary.url) as follower, connect(follower) as follows:
            wait_for(follows, leads)
            assert broker_of(follows)["min_position"] >= broker_of(leads)["min_position"] > 0
            assert frames_of(follows) == frames_of(leads)
            assert pull_all(follows, "t") == pull_all(leads, "t")
            queues = "/v1/topics/t"
            assert follows.get(queues).json() == leads.get(queues).json()


def test_a_follower_keeps_what_it_does_not_know_to_be_compacted(tmp_path: Path) -> None:
    options: dict[str, Any] = {"storage__retention_ms": 0, "storage__compacted_grace_ms": 0, "lake__verify": 0}
    with start_gateway(tmp_path / "primary", **SMALL) as primary, connect(primary) as leads:
        put_topic(leads, "t")
        placed = [produce(leads, "t", f"{number}" + "x" * 600_000)[0]["position"] for number in range(10)]
        leads.put("/v1/broker/compacted", json={"compacted_position": placed[5]}).raise_for_status()
        with start_follower(tmp_path / "follower", primary.url, **options) as follower, connect(follower) as follows:
            wait_for(follows, leads)
            wait_until(lambda: broker_of(follows)["min_position"] > 0)
            assert broker_of(follows)["compacted_position"] == placed[5]
            bases = [int(path.stem) for path in (tmp_path / "primary/commitlog").glob("*.log")]
            wait_until(lambda: broker_of(follows)["min_position"] == max(each for each in bases if each <= placed[5]))
            assert broker_of(leads)["min_position"] == 0


def test_a_damaged_frame_is_not_taken_and_the_primary_hears_of_it(tmp_path: Path) -> None:
    options: dict[str, Any] = {**SMALL, "storage__cache_bytes": 200_000}
    with start_gateway(tmp_path / "primary", **options) as primary, connect(primary) as leads:
        put_topic(leads, "t")
        for number in range(4):
            produce(leads, "t", f"{number}" + "x" * 400_000)
        segment = min((tmp_path / "primary/commitlog").glob("*.log"))
        sound = segment.read_bytes()
        middle = len(sound) // 2
        segment.write_bytes(sound[:middle] + bytes([sound[middle] ^ 1]) + sound[middle + 1 :])
        with start_follower(tmp_path / "follower", primary.url) as follower, connect(follower) as follows:
            wait_until(lambda: "damaged" in degraded(follows) or "not sound" in degraded(follows))
            wait_until(lambda: segment.name in degraded(leads))
            assert sound.startswith(frames_of(follows))
            segment.write_bytes(sound)
            wait_for(follows, leads)
            assert frames_of(follows) == frames_of(leads)
            wait_until(lambda: not degraded(follows))


def test_another_log_at_the_primarys_address_is_not_followed(tmp_path: Path) -> None:
    port = free_port()
    with start_gateway(tmp_path / "primary", gateway__port=port, **SMALL) as primary, connect(primary) as leads:
        produce(leads, "t", "kept")
        with start_follower(tmp_path / "follower", primary.url) as follower, connect(follower) as follows:
            wait_for(follows, leads)
            kept = frames_of(follows)
            primary.kill()
            with start_gateway(tmp_path / "other", gateway__port=port, **SMALL) as other, connect(other) as replaced:
                produce(replaced, "t", *map(str, range(100)))
                wait_until(lambda: "has stopped following" in degraded(follows))
                assert "another one now" in degraded(follows)
                assert "another one now" in broker_of(follows)["follower_fault"]
                assert frames_of(follows) == kept
                assert [each["body"] for each in pull_all(follows, "t")] == ["kept"]
                assert "lakemq_following 0.0" in follows.get("/metrics").text


def test_a_primary_that_lost_what_the_follower_has_is_not_followed(tmp_path: Path) -> None:
    port = free_port()
    with start_gateway(tmp_path / "primary", gateway__port=port, **SMALL) as primary, connect(primary) as leads:
        produce(leads, "t", "both")
        with start_follower(tmp_path / "follower", primary.url) as follower, connect(follower) as follows:
            wait_for(follows, leads)
            log = tmp_path / "primary/commitlog"
            assert primary.stop() == 0
            before = {path.name: path.read_bytes() for path in log.iterdir()}
            with start_gateway(tmp_path / "primary", gateway__port=port, **SMALL) as again, connect(again) as leads:
                produce(leads, "t", "the follower alone")
                wait_for(follows, leads)
            for path in log.iterdir():
                path.unlink()
            for name, data in before.items():
                (log / name).write_bytes(data)
            with start_gateway(tmp_path / "primary", gateway__port=port, **SMALL):
                wait_until(lambda: "has stopped following" in degraded(follows))
                assert "this log ends with position" in degraded(follows)
                assert [each["body"] for each in pull_all(follows, "t")] == ["both", "the follower alone"]


def test_a_follower_is_not_followed(tmp_path: Path) -> None:
    with (
        start_gateway(tmp_path / "primary", **SMALL) as primary,
        start_follower(tmp_path / "one", primary.url) as one,
        start_follower(tmp_path / "two", primary.url) as two,
    ):
        two.stop()
        with start_follower(tmp_path / "two", one.url) as again, connect(again) as follows:
            wait_until(lambda: "is a follower of broker broker-a" in degraded(follows))


def test_a_follower_that_is_alone_serves_what_it_has_and_takes_no_writes(tmp_path: Path) -> None:
    with start_gateway(tmp_path / "primary", **SMALL) as primary, connect(primary) as leads:
        produce(leads, "t", "x")
        with start_follower(tmp_path / "follower", primary.url) as follower, connect(follower) as follows:
            wait_for(follows, leads)
            follower.stop()
        address = primary.url
    with start_follower(tmp_path / "follower", address) as follower, connect(follower) as follows:
        assert [each["body"] for each in pull_all(follows, "t")] == ["x"]
        refused = follows.post("/v1/topics/t/messages", content=b"x")
        assert is_problem(refused, 421, "not_leader")
        assert refused.json()["leader"] == address
