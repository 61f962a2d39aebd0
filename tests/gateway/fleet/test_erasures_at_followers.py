"""What is erased at a primary is in no file of its followers either, and none shows it again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import httpx

from lakemq.testing import start_gateway
from tests.gateway.fleet.following import SMALL, broker_of, frames_of, start_follower, wait_for
from tests.gateway.fleet.test_in_sync import PATIENT, fleet, in_sync
from tests.gateway.http_client import connect, is_problem, produce, pull, pull_all
from tests.gateway.routing.asking import wait_until

SECRET = "the secret of user 17"
LARGE = "x" * 700_000


def fill(http: httpx.Client) -> int:
    """Messages in a sealed segment and the one that is written, one of them secret; its position."""
    (_, placed), *_ = [produce(http, "t", "before", SECRET), *(produce(http, "t", LARGE) for _ in range(3))]
    produce(http, "t", "after")
    return placed["position"]


def erase(http: httpx.Client, position: int) -> None:
    answer = http.post("/v1/log/erasures", json={"positions": [position]})
    assert (answer.status_code, answer.json()["erased"]) == (200, 1), answer.text


def holds_secret(directory: Path) -> bool:
    return any(SECRET.encode() in path.read_bytes() for path in directory.rglob("*") if path.is_file())


def bodies(http: httpx.Client) -> list[str]:
    """Of all messages that it shows now."""
    return [message["body"] for message in pull_all(http, "t") if message["body"] != LARGE]


def test_an_erasure_that_is_answered_is_carried_out_at_all_in_sync(tmp_path: Path) -> None:
    with fleet(tmp_path, **PATIENT) as both:
        secret = fill(both.leads)
        (newest,) = produce(both.leads, "t", SECRET + " again")
        assert SECRET in bodies(both.follows)
        assert holds_secret(tmp_path / "follower")
        for position in (secret, newest["position"]):
            erase(both.leads, position)
        assert not holds_secret(tmp_path / "follower")
        assert bodies(both.follows) == ["before", "after"]
        wait_for(both.follows, both.leads)
        assert frames_of(both.follows) == frames_of(both.leads)


def test_one_that_is_left_in_a_cut_file_of_the_primary_is_not_counted_with_a_later_one(tmp_path: Path) -> None:
    with fleet(tmp_path, **PATIENT) as both:
        secret = fill(both.leads)
        (tmp_path / "primary" / "commitlog" / f"cut-1-{secret}.frames").mkdir()  # it can't be read
        answer = both.leads.post("/v1/log/erasures", json={"positions": [secret]})
        assert is_problem(answer, 503, "store_unwritable")
        erase(both.leads, secret - 1)
        assert broker_of(both.leads)["erasures"] == 0


def away(directory: Path, meanwhile: Callable[[Path], object] = lambda _: None) -> Path:
    """Have a follower be away while something is erased, its log `meanwhile` be changed; its folder."""
    quick = {**SMALL, "replication__silent_ms": 500}
    with start_gateway(directory / "primary", **quick) as primary, connect(primary) as leads:
        with start_follower(directory / "follower", primary.url) as follower, connect(follower) as follows:
            secret = fill(leads)
            wait_for(follows, leads)
        meanwhile(directory / "follower" / "commitlog")
        erase(leads, secret)
    return directory / "follower"


def test_one_that_was_away_carries_it_out_before_it_shows_messages(tmp_path: Path) -> None:
    directory = away(tmp_path)
    assert holds_secret(directory)
    with (
        start_gateway(tmp_path / "primary", **SMALL) as primary,
        start_follower(directory, primary.url) as follower,
        connect(follower) as follows,
    ):
        answer = follows.get("/v1/topics/t/queues/0/messages", params={"offset": 0})
        assert SECRET not in answer.text
        wait_until(lambda: follows.get("/v1/log/messages?from=0&to=1").status_code == 200)
        assert not holds_secret(directory)
        assert bodies(follows) == ["before", "after"]


def test_one_that_said_it_stops_is_not_waited_for_and_carries_it_out_before_it_counts_again(tmp_path: Path) -> None:
    directory = tmp_path / "follower"
    with start_gateway(tmp_path / "primary", **PATIENT) as primary, connect(primary) as leads:
        with start_follower(directory, primary.url):
            secret = fill(leads)
            wait_until(lambda: in_sync(leads) == [0, 1])
        erase(leads, secret)
        assert broker_of(leads)["in_sync"] == [0]
        assert holds_secret(directory)
        with start_follower(directory, primary.url) as again, connect(again) as follows:
            assert SECRET not in follows.get("/v1/topics/t/queues/0/messages", params={"offset": 0}).text
            wait_until(lambda: in_sync(leads) == [0, 1])
            erase(leads, secret + 1)  # it is waited for again, and has carried out all before
            assert not holds_secret(directory)
            assert bodies(follows) == ["before", "after"]


def test_one_that_can_not_carry_it_out_shows_no_messages_and_says_why(tmp_path: Path) -> None:
    def damage(log: Path) -> None:
        first = min(log.glob("*.log"))
        content = bytearray(first.read_bytes())
        content[content.index(LARGE.encode())] ^= 1
        first.write_bytes(content)

    directory = away(tmp_path, damage)
    with (
        start_gateway(tmp_path / "primary", **SMALL) as primary,
        start_follower(directory, primary.url, storage__verify_ms=0) as follower,
        connect(primary) as leads,
        connect(follower) as follows,
    ):
        wait_for(follows, leads)
        wait_until(lambda: "an erasure can't be carried out now" in follows.get("/readyz").text)
        for path in ("/v1/topics/t/queues/0/messages?offset=0", "/v1/messages?topic=t&key=k", "/v1/messages/1"):
            assert is_problem(follows.get(path), 503, "busy")
        assert is_problem(follows.get("/v1/log/frames?from=0"), 503, "busy")
        assert broker_of(follows)["follower_fault"] is None
        produce(leads, "t", "it follows on")
        wait_for(follows, leads)


def test_what_a_crash_left_to_be_done_a_start_does_before_it_serves_without_a_primary_too(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with start_gateway(tmp_path / "primary", **SMALL) as primary, connect(primary) as leads:
        with start_follower(tmp_path / "follower", primary.url) as follower, connect(follower) as follows:
            secret = fill(leads)
            wait_for(follows, leads)
            log = tmp_path / "follower" / "commitlog"
            first = min(log.glob("*.log"))
            shutil.copy(first, kept)
            wait_until(lambda: broker_of(leads)["in_sync"] == [0, 1])
            erase(leads, secret)
            wait_until(lambda: pull(follows, "t", 0, 0)["status"] == "found")
            follower.kill()
        address = primary.url
    shutil.copy(kept, first)  # as if the record had come, and nothing more
    first.with_suffix(".idx").unlink()
    (tmp_path / "follower" / "ERASED").unlink()
    assert holds_secret(tmp_path / "follower")
    with start_follower(tmp_path / "follower", address) as follower, connect(follower) as follows:
        assert bodies(follows) == ["before", "after"]
    assert not holds_secret(tmp_path / "follower")
