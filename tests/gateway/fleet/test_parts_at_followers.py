"""Parts of a batch that is committed are at the followers before that is confirmed: whoever takes the primary's place
stores what is left of it, once."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import httpx

from lakemq.testing import start_gateway
from tests.gateway.fleet.electing import PATIENT as ELECTED
from tests.gateway.fleet.electing import STILL_S, replicas
from tests.gateway.fleet.following import SMALL, broker_of, degraded, start_follower, wait_for
from tests.gateway.fleet.test_in_sync import PATIENT, fleet, in_sync, waiting
from tests.gateway.http_client import connect, is_problem, pull_all, put_topic
from tests.gateway.routing.asking import wait_until
from tests.gateway.sinks.asking import commit, put_part, sink_of
from tests.standstill import begins_again_after

STALLING = "tests.gateway.fleet.stalling_gateway"


def parts_in(directory: Path) -> list[str]:
    return [path.name for path in (directory / "sinks").iterdir()]


def bodies(http: httpx.Client) -> list[str]:
    return [message["body"] for message in pull_all(http, "t")]


def test_a_batch_whose_primary_died_as_it_was_committed_is_stored_by_its_follower_once(tmp_path: Path) -> None:
    with (
        start_gateway(tmp_path / "primary", module=STALLING, **PATIENT) as primary,
        start_follower(tmp_path / "follower", primary.url) as follower,
        connect(primary) as leads,
        connect(follower) as follows,
    ):
        wait_until(lambda: in_sync(leads) == [0, 1])
        put_topic(leads, "t")
        for name in ("a", "b"):
            assert put_part(leads, "s", 0, name, [f"{name}{number}" for number in range(3)], topic="t").json()["staged"]
        put_part(leads, "s", 1, "next", ["of the next batch"], topic="t")
        with waiting(lambda: commit(leads, "s", 0, "a", "b")) as held:
            wait_until(lambda: follows.get("/v1/sinks/s").status_code == 200)
            wait_until(lambda: broker_of(leads)["confirmed_position"] == broker_of(leads)["max_position"])
            primary.kill()
            assert held.exception() is not None
        follower.kill()
    with start_gateway(tmp_path / "follower", **SMALL) as gateway, connect(gateway) as http:
        wait_until(lambda: sink_of(http, "s")["state"] == "stored")
        assert bodies(http) == ["a0", "a1", "a2", "b0", "b1", "b2"]
        assert sink_of(http, "s")["dropped"] == 0
        assert commit(http, "s", 0, "a", "b").json()["new"] is False
        assert is_problem(commit(http, "s", 1, "next"), 409, "part_not_found")
        assert put_part(http, "s", 1, "next", ["of the next batch"], topic="t").json()["staged"]
        assert commit(http, "s", 1, "next").json()["new"] is True
        assert bodies(http)[6:] == ["of the next batch"]
    assert not parts_in(tmp_path / "follower")


def test_a_commit_is_confirmed_when_its_parts_are_there_and_they_go_when_they_are_stored(tmp_path: Path) -> None:
    with fleet(tmp_path, **PATIENT) as both:
        put_topic(both.leads, "t")
        put_part(both.leads, "s", 0, "a", ["1", "2"], topic="t")
        wait_for(both.follows, both.leads)
        directory = tmp_path / "follower" / "sinks"
        directory.rename(tmp_path / "elsewhere")
        directory.write_bytes(b"")  # nothing can be taken there
        with waiting(lambda: commit(both.leads, "s", 0, "a")) as held:
            wait_until(lambda: "can't be taken from the primary now" in degraded(both.follows))
            wait_until(lambda: broker_of(both.follows)["max_position"] == broker_of(both.leads)["max_position"])
            said = broker_of(both.leads)
            assert said["confirmed_position"] < said["flushed_position"]
            assert not held.done()
            directory.unlink()
            (tmp_path / "elsewhere").rename(directory)
            assert held.result().json()["messages"] == 2
        assert bodies(both.leads) == ["1", "2"]
        wait_until(lambda: bodies(both.follows) == ["1", "2"])
        assert degraded(both.follows) == ""
        put_part(both.leads, "s", 1, "b", ["3"], topic="t")
        assert commit(both.leads, "s", 1, "b").json()["new"] is True
        wait_until(lambda: not parts_in(tmp_path / "follower"))
        assert not parts_in(tmp_path / "primary")


def test_a_follower_that_is_killed_takes_what_it_lacks_as_it_comes_back(tmp_path: Path) -> None:
    directory = tmp_path / "follower"
    with (
        start_gateway(tmp_path / "primary", module=STALLING, **PATIENT) as primary,
        connect(primary) as leads,
        start_follower(directory, primary.url) as follower,
    ):
        wait_until(lambda: in_sync(leads) == [0, 1])
        put_topic(leads, "t")
        put_part(leads, "s", 0, "a", ["1"], topic="t")
        with waiting(lambda: commit(leads, "s", 0, "a")) as held:
            wait_until(lambda: any(each.endswith(".part") for each in parts_in(directory)))
            follower.kill()
            for each in (directory / "sinks").iterdir():
                each.unlink()
            with start_follower(directory, primary.url):
                wait_until(lambda: any(each.endswith(".part") for each in parts_in(directory)))
            primary.kill()
            assert held.exception() is not None


@contextmanager
def taking_nothing(directory: Path) -> Generator[None]:
    """A replica that can take no parts meanwhile."""
    (directory / "sinks").rename(directory / "elsewhere")
    (directory / "sinks").write_bytes(b"")
    try:
        yield
    finally:
        (directory / "sinks").unlink()
        (directory / "elsewhere").rename(directory / "sinks")


def has_all(follows: httpx.Client, leads: httpx.Client) -> bool:
    return broker_of(follows)["max_position"] == broker_of(leads)["max_position"]


@begins_again_after(STILL_S)
def test_who_leads_next_without_the_parts_has_the_batch_staged_and_committed_again(tmp_path: Path) -> None:
    """It took the batch for committed, recorded its parts as dropped, and said that the same commit was done before."""
    with replicas(tmp_path, **ELECTED) as fleet:
        leads, follows = fleet.http(0), fleet.http(1)
        put_topic(leads, "t")
        assert put_part(leads, "s", 0, "a", ["1"], topic="t").json()["staged"]
        assert commit(leads, "s", 0, "a", progress="first").json()["new"] is True
        assert put_part(leads, "s", 1, "a", ["2", "3"], topic="t").json()["staged"]
        wait_for(follows, leads)
        with taking_nothing(tmp_path / "1"), waiting(lambda: commit(leads, "s", 1, "a")) as held:
            wait_until(lambda: "can't be taken from the primary now" in degraded(follows) and has_all(follows, leads))
            fleet.kill(0)
            assert held.exception() is not None
        assert fleet.leader() == 1
        assert is_problem(commit(follows, "s", 1, "a"), 409, "part_not_found")
        assert {"batch": 0, "progress": "first", "messages": 1}.items() <= sink_of(follows, "s").items()
        assert put_part(follows, "s", 1, "a", ["2", "3"], topic="t").json()["staged"]
        assert commit(follows, "s", 1, "a").json() == {
            "sink": "s",
            "batch": 1,
            "new": True,
            "messages": 2,
            "dropped": 0,
        }
        assert bodies(follows) == ["1", "2", "3"]
        fleet.start(0)
        fleet.in_sync(0, 1)
        wait_until(lambda: bodies(fleet.http(0)) == ["1", "2", "3"])
        assert not parts_in(tmp_path / "1")
        wait_until(lambda: not parts_in(tmp_path / "0"))
