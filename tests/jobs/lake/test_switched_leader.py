"""A broker whose leader is killed while the jobs run: they go on at the one that took its place, and nothing is in the
lake twice."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakemq.jobs.lake.query import LakeQuery
from lakemq.jobs.process import broker_watch
from lakemq.jobs.process.broker_watch import BrokerWatch
from lakemq.jobs.process.keep_running import keep_running
from lakemq.jobs.routing.query import RoutingQuery
from lakemq.jobs.routing.session import routing_session
from lakemq.jobs.tables.driver import Driver
from lakemq.settings import Lake, Routing, Settings
from lakemq.testing import NameServerProcess, start_nameserver
from lakemq.wire.name_servers import NameServers
from tests.gateway.fleet.electing import SYNC, Replicas
from tests.gateway.http_client import produce, put_topic
from tests.jobs.lake_checks import Seen
from tests.jobs.routing.conftest import bodies, wait_until

ALONE: dict[str, Any] = {"routing__lead_ms": 0, "routing__grace_ms": -1}
"""What waits is decided by the queries, or not at all."""


@pytest.fixture
def nameserver() -> Iterator[NameServerProcess]:
    with start_nameserver() as process:
        yield process


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("BEAT_S", 0.2), ("DEAD_S", 2.0), ("BACK_S", 1.0), ("NAMES_S", 0.2)):
        monkeypatch.setattr(broker_watch, name, seconds)


def bodies_in(messages: Seen) -> list[str]:
    """The bodies that the lake has of the topic, sorted."""
    return sorted(bytes(body).decode() for topic, body in messages.rows() if topic == "t")


def test_jobs_follow_the_leader_and_nothing_is_in_the_lake_twice(
    spark: SparkSession, quick: None, nameserver: NameServerProcess, tmp_path: Path
) -> None:
    fleet = Replicas(tmp_path, **SYNC, **ALONE, fleet__nameservers=nameserver.url)
    settings = Settings(lake=Lake(dir=tmp_path / "lake", trigger_ms=0), routing=Routing(tick_ms=100))
    stop, turn, sent = threading.Event(), threading.Lock(), list[str]()
    messages = Seen(tmp_path / "lake", "messages", ["topic", "body"])
    watch = BrokerWatch("", stop, NameServers([nameserver.url]))
    lake: Callable[[str], LakeQuery] = partial(LakeQuery, spark, settings, driver=Driver(spark, settings.lake))
    delay: Callable[[str], RoutingQuery] = partial(RoutingQuery, routing_session(spark), settings, ["delay"])

    def come(*names: str) -> None:
        """Produce messages of which the last one waits, and see them delivered and in the lake."""
        http = fleet.http(fleet.leader())
        produce(http, "t", *names[:-1], {"body": names[-1], "delay_ms": 1})
        sent.extend(names)
        wait_until(lambda: names[-1] in bodies(http, "t"))
        wait_until(lambda: len(bodies_in(messages)) >= len(sent))

    try:
        for replica in (0, 1):
            fleet.start(replica)
        fleet.in_sync(0, 1)
        put_topic(fleet.http(0), "t", 1)
        watch.start()
        with ThreadPoolExecutor(2) as threads:
            running: list[Future[None]] = [
                threads.submit(keep_running, "lake", lake, watch, stop, turn),
                threads.submit(keep_running, "delay", delay, watch, stop, turn, batches_until_ready=1),
            ]
            try:
                come("a", "b")
                fleet.in_sync(0, 1)
                leader = fleet.leader()
                produce(fleet.http(leader), "t", {"body": "c", "delay_ms": 1})  # its leader dies with it
                sent.append("c")
                fleet.kill(leader)
                come("d", "e")
                assert not any(job.done() for job in running)
            finally:
                stop.set()
        assert [job.exception() for job in running] == [None, None]
        assert sorted(bodies(fleet.http(1 - leader), "t")) == sorted(sent)
    finally:
        stop.set()
        fleet.close()
    assert bodies_in(messages) == sorted(sent)
