"""Two brokers, one of which dies: what the other has goes on, and it goes on itself when it is back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from pyspark.sql import SparkSession

from lakemq.jobs.lake.query import LakeQuery
from lakemq.jobs.process import broker_watch
from lakemq.jobs.process.broker_watch import BrokerWatch
from lakemq.jobs.process.keep_running import keep_running
from lakemq.jobs.routing.query import RoutingQuery
from lakemq.jobs.routing.session import routing_session
from lakemq.jobs.sql.live import LiveViews
from lakemq.jobs.tables.driver import Driver
from lakemq.settings import Lake, Routing, Settings
from lakemq.testing import start_gateway
from tests.gateway.http_client import connect, produce
from tests.jobs.lake_checks import Seen
from tests.jobs.routing.conftest import bodies, wait_until

ALONE: dict[str, Any] = {"routing__lead_ms": 0, "routing__grace_ms": -1}
"""What waits is decided by the queries, or not at all."""


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("BEAT_S", 0.2), ("DEAD_S", 2.0), ("BACK_S", 1.0)):
        monkeypatch.setattr(broker_watch, name, seconds)


class Pair:
    """Two gateways, and what was produced to them by the bodies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.lake = folder / "lake"
        self._names = ("broker-a", "broker-b")
        self.gateways = [start_gateway(folder / name, broker__name=name, **ALONE) for name in self._names]
        self.url = ",".join(gateway.url for gateway in self.gateways)
        self.produced: set[tuple[str, str]] = set()
        self._messages = Seen(self.lake, "messages", ["broker", "topic", "body"])

    def start_again(self, number: int) -> None:
        name, port = self._names[number], httpx.URL(self.gateways[number].url).port
        self.gateways[number] = start_gateway(self._folder / name, broker__name=name, gateway__port=port, **ALONE)

    def come(self, number: int, body: str) -> None:
        """Produce a message that waits, and see it delivered and in the lake."""
        with connect(self.gateways[number]) as http:
            produce(http, "t", {"body": body, "delay_ms": 1})
            wait_until(lambda: body in bodies(http, "t"))
        self.produced.add((self._names[number], body))
        wait_until(lambda: self.in_lake() == sorted(self.produced))

    def in_lake(self) -> list[tuple[str, str]]:
        """By broker, what the lake holds of the topic."""
        rows = self._messages.rows()
        return sorted((broker, bytes(body).decode()) for broker, topic, body in rows if topic == "t")

    def are_alive(self, number: int) -> bool:
        """Whether the broker has heard of both jobs just now: a run that follows another says nothing for a while."""
        jobs = self.jobs(number)
        return jobs.keys() == {"lake", "delay"} and all(job["alive"] for job in jobs.values())

    def jobs(self, number: int) -> dict[str, Any]:
        with connect(self.gateways[number]) as http:
            return http.get("/v1/broker").json()["jobs"]


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path)
    yield pair
    for gateway in pair.gateways:
        gateway.stop()


def test_a_dead_broker_stops_nothing_of_the_other_and_goes_on_when_it_is_back(
    spark: SparkSession, pair: Pair, quick: None
) -> None:
    settings = Settings(lake=Lake(dir=pair.lake, trigger_ms=0), routing=Routing(tick_ms=100))
    stop, turn = threading.Event(), threading.Lock()
    watch = BrokerWatch(pair.url, stop)
    watch.start()
    views = LiveViews(spark, settings.lake.dir, lambda: pair.url)
    lake: Callable[[str], LakeQuery] = partial(
        LakeQuery, spark, settings, views=views, driver=Driver(spark, settings.lake)
    )
    delay: Callable[[str], RoutingQuery] = partial(RoutingQuery, routing_session(spark), settings, ["delay"])
    with ThreadPoolExecutor(2) as threads:
        running: list[Future[None]] = [
            threads.submit(keep_running, "lake", lake, watch, stop, turn),
            threads.submit(keep_running, "delay", delay, watch, stop, turn, batches_until_ready=1),
        ]
        try:
            pair.come(0, "a1")
            pair.come(1, "b1")
            wait_until(lambda: all(pair.jobs(each).get("lake", {}).get("lag") == 0 for each in (0, 1)))
            wait_until(lambda: all(pair.are_alive(each) for each in (0, 1)))
            pair.gateways[1].kill()
            pair.come(0, "a2")
            wait_until(lambda: pair.are_alive(0))
            pair.start_again(1)
            pair.come(1, "b2")
            pair.come(0, "a3")
            assert not any(job.done() for job in running)
        finally:
            stop.set()
    assert [job.exception() for job in running] == [None, None]
    assert pair.in_lake() == sorted(pair.produced)


def test_who_answers_is_known_and_when_that_changes(pair: Pair, quick: None) -> None:
    stop = threading.Event()
    watch = BrokerWatch(pair.url, stop)
    watch.start()
    first, second = pair.url.split(",")
    try:
        # Whoever was slow to answer is asked again.
        wait_until(lambda: watch.wait() == (first, second) and not watch.has_changed((first, second)))
        pair.gateways[1].kill()
        wait_until(lambda: watch.has_changed((first, second)))
        wait_until(lambda: watch.wait() == (first,) and not watch.has_changed((first,)))
        pair.gateways[0].kill()
        wait_until(lambda: not watch.answering)
        assert not watch.has_changed((first,)), "nobody is left to go on with"
        pair.start_again(1)
        wait_until(lambda: watch.has_changed((first,)))
        wait_until(lambda: watch.wait() == (second,))
    finally:
        stop.set()
    assert watch.wait() == ()


def test_a_broker_that_never_answered_is_waited_for_a_while_only(quick: None, pair: Pair) -> None:
    stop = threading.Event()
    watch = BrokerWatch(f"http://127.0.0.1:1,{pair.gateways[0].url}", stop)
    watch.start()
    try:
        assert watch.wait() == (pair.gateways[0].url,)
    finally:
        stop.set()
