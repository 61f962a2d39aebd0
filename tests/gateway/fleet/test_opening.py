"""A replica that takes long to become another: it beats and looks on all the while, and may be stopped."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from lakemq.gateway.fleet.election import BEATS, Election
from lakemq.gateway.fleet.shared_folder import SharedFolder
from lakemq.gateway.process.broker import Broker
from lakemq.gateway.process.exchange import Exchange
from lakemq.storage.disk.files import Files
from tests.gateway.fleet.electing import role_of
from tests.gateway.fleet.embedding import replica
from tests.gateway.fleet.following import broker_of, wait_for
from tests.gateway.fleet.leaderships import opened
from tests.gateway.http_client import WAIT_S, produce, pull_all
from tests.gateway.routing.asking import wait_until

SLOW = {"fleet__lease_ms": 8_000}
"""No part of a busy process stands still for so long while another goes on."""


class SlowToOpen(Files):
    """While `opens` is not set a log is opened as slowly as that. `comes`: one is being opened."""

    def __init__(self) -> None:
        self.opens = threading.Event()
        self.opens.set()
        self.comes = threading.Event()

    def tighten(self, directory: Path, *inner: Path) -> None:
        """What a broker does first of all."""
        if not self.opens.is_set():
            self.comes.set()
            assert self.opens.wait(2 * WAIT_S)
        super().tighten(directory, *inner)


def listens(url: str) -> bool:
    try:
        httpx.get(url + "/healthz", trust_env=False, timeout=5)
    except httpx.ConnectError:
        return False
    except httpx.TransportError:
        pass  # it was closed while it was asked: the next one will be refused
    return True


def last_beat(root: Path) -> tuple[int, int, int]:
    """Of which epoch and replica the last beat in the store is, and its number there."""

    async def look() -> tuple[int, int, int]:
        kept = opened(SharedFolder(Files(), root / "store"), "broker-a")
        try:
            beat = await kept.last_beat()
        finally:
            await kept.close()
        return (0, 0, 0) if beat is None else (beat.epoch, beat.replica, beat.count)

    return asyncio.run(look())


def test_who_opens_a_log_for_longer_than_a_lease_beats_on_and_may_be_stopped_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    files = SlowToOpen()
    with ExitStack() as first:
        leader = first.enter_context(replica(tmp_path, 0, Files(), **SLOW))
        wait_until(lambda: role_of(leader) == "primary")
        (placed,) = produce(leader, "t", "0")
        files.opens.clear()
        with replica(tmp_path, 1, files, **SLOW) as follower:
            assert files.comes.wait(WAIT_S)
            assert follower.get("/healthz").json() == {"status": "up"}  # it isn't held up as a follower either
            files.opens.set()
            wait_until(lambda: broker_of(leader).get("in_sync") == [0, 1])
            wait_for(follower, leader)
            files.comes.clear()
            files.opens.clear()
            switched = leader.post("/v1/broker/switch", json={"replica": 1}).json()
            assert files.comes.wait(WAIT_S)
            assert switched["leader"] == 1
            leads = switched["epoch"], 1
            # For longer than a lease, and nobody has stood meanwhile.
            wait_until(lambda: last_beat(tmp_path)[:2] == leads and last_beat(tmp_path)[2] > BEATS + 1)
            assert follower.get("/healthz").json() == {"status": "up"}
            assert follower.get("/readyz").status_code == 503
            files.opens.set()
            wait_until(lambda: role_of(follower) == "primary")
            assert broker_of(follower)["election"]["leader_epoch"] == switched["epoch"]
            assert [each["position"] for each in pull_all(follower, "t")] == [placed["position"]]
            first.close()  # it would stand for who is stopped sooner
    files.comes.clear()
    files.opens.clear()
    with ThreadPoolExecutor(1) as pool:
        opening = replica(tmp_path, 1, files, **SLOW)
        url = str(opening.__enter__().base_url)
        assert files.comes.wait(WAIT_S)
        stopping = pool.submit(opening.__exit__, None, None, None)
        wait_until(lambda: not listens(url))
        assert not stopping.done()  # the folder is its own until the log is closed
        files.opens.set()
        stopping.result(WAIT_S)
    with replica(tmp_path, 1, files, **SLOW) as again:
        wait_until(lambda: role_of(again) == "primary")
        assert [each["position"] for each in pull_all(again, "t")] == [placed["position"]]


@pytest.mark.parametrize("ack", ["async", "sync"])
def test_who_acknowledges_by_a_lease_is_asked_only_when_the_leader_before_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ack: str
) -> None:
    comes, is_alone, until_alone = threading.Event(), threading.Event(), Election.until_alone

    async def waits(election: Election) -> None:
        comes.set()
        assert await asyncio.to_thread(is_alone.wait, WAIT_S)
        await until_alone(election)

    monkeypatch.setattr(Election, "until_alone", waits)
    with replica(tmp_path, 0, Files(), replication__ack=ack) as leader:
        if ack == "async":
            assert comes.wait(WAIT_S)
            assert leader.get("/readyz").status_code == 503
            wait_until(lambda: last_beat(tmp_path) >= (1, 0, BEATS))
            assert leader.get("/readyz").status_code == 503
            is_alone.set()
        wait_until(lambda: leader.get("/readyz").status_code == 200)
        assert produce(leader, "t", "0")


def test_who_is_stopped_with_no_broker_ends_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    comes, ends, closes, closed = threading.Event(), threading.Event(), threading.Event(), list[str]()
    close, end = Broker.close, Exchange.close

    async def ending(exchange: Exchange) -> None:
        ends.set()
        await end(exchange)

    async def slowly(broker: Broker, stays: bool = False) -> None:
        comes.set()
        assert await asyncio.to_thread(closes.wait, WAIT_S)
        await close(broker, stays)
        closed.append(broker.tenure.role)

    with ThreadPoolExecutor(1) as pool:
        with replica(tmp_path, 1, Files()) as waiting:
            wait_until(lambda: "replica 0 begins one" in waiting.get("/readyz").text)
        leading = replica(tmp_path, 0, Files())
        leader = leading.__enter__()
        with replica(tmp_path, 1, Files()):
            wait_until(lambda: broker_of(leader).get("in_sync") == [0, 1])
            monkeypatch.setattr(Broker, "close", slowly)
            monkeypatch.setattr(Exchange, "close", ending)
            assert leader.post("/v1/broker/switch", json={"replica": 1}).is_success
            assert comes.wait(WAIT_S)
            stopping = pool.submit(leading.__exit__, None, None, None)
            assert ends.wait(WAIT_S)
            closes.set()
            stopping.result(WAIT_S)
            assert "primary" in closed
            monkeypatch.undo()
