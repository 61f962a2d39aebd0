"""The jobs and `format("lakemq")` by name servers: brokers that join and leave while they run."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from pyspark.sql import SparkSession

from lakemq.jobs.errors import BrokerUnavailable, InvalidOption
from lakemq.jobs.log_client import find_brokers
from lakemq.jobs.process import broker_watch
from lakemq.jobs.process.broker_watch import BrokerWatch
from lakemq.jobs.sink.options import parse_sink_options
from lakemq.jobs.source.options import parse_options
from lakemq.testing import GatewayProcess, NameServerProcess, start_gateway, start_nameserver
from lakemq.wire.connections import NoAnswer
from lakemq.wire.name_servers import NameServers
from tests.gateway.http_client import connect, produce, pull_all
from tests.jobs.routing.conftest import wait_until

NOBODY = "http://127.0.0.1:1"


@pytest.fixture
def nameserver() -> Iterator[NameServerProcess]:
    with start_nameserver() as process:
        yield process


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("BEAT_S", 0.2), ("DEAD_S", 2.0), ("BACK_S", 1.0), ("NAMES_S", 0.2)):
        monkeypatch.setattr(broker_watch, name, seconds)


def registered(folder: Path, name: str, nameserver: NameServerProcess, **options: object) -> GatewayProcess:
    """A gateway that the name server knows."""
    gateway = start_gateway(folder / name, broker__name=name, fleet__nameservers=nameserver.url, **options)
    wait_until(lambda: find_brokers([nameserver.url], 0).get(name) == gateway.url)
    return gateway


def test_brokers_join_and_leave_while_the_jobs_run(quick: None, nameserver: NameServerProcess, tmp_path: Path) -> None:
    stop = threading.Event()
    watch = BrokerWatch("", stop, NameServers([NOBODY, nameserver.url]))
    watch.start()
    try:
        with registered(tmp_path, "first", nameserver) as first:
            wait_until(lambda: watch.wait() == (first.url,) and not watch.has_changed((first.url,)))
            with registered(tmp_path, "second", nameserver) as second:
                wait_until(lambda: watch.has_changed((first.url,)))
                # Whoever was slow to answer is asked again.
                wait_until(lambda: set(watch.wait()) == {first.url, second.url})
                wait_until(lambda: set(watch.addresses().split(",")) == {first.url, second.url})
            wait_until(lambda: watch.has_changed((first.url, second.url)))
            wait_until(lambda: watch.wait() == (first.url,))
            wait_until(lambda: watch.addresses() == first.url)
    finally:
        stop.set()


def test_who_answers_has_not_left_whatever_a_name_server_says_that_has_just_begun(
    quick: None, nameserver: NameServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_watch, "NAMES_S", 3600.0)  # its thread learns once, and then only what is told here
    monkeypatch.setattr(broker_watch, "DEAD_S", 3600.0)  # it answers, however long the machine stands still
    stop = threading.Event()
    with registered(tmp_path, "stays", nameserver) as gateway:
        watch = BrokerWatch("", stop, NameServers([nameserver.url]))
        watch.start()
        try:
            assert watch.wait() == (gateway.url,)
            with httpx.Client(base_url=nameserver.url, timeout=60, trust_env=False) as http:

                def is_forgotten() -> bool:
                    """It may have said in between that it is there."""
                    http.delete("/v1/brokers/stays/replicas/0").raise_for_status()
                    return find_brokers([nameserver.url], 0) == {}

                wait_until(is_forgotten)
            watch._learn({})  # pyright: ignore[reportPrivateUsage]  as the thread does, at some time
            assert watch.addresses() == gateway.url
            assert not watch.has_changed((gateway.url,))
            # Its name is another's now: two that answer by one name would be no broker to go on with.
            watch._learn({"stays": NOBODY})  # pyright: ignore[reportPrivateUsage]
            assert watch.addresses() == NOBODY
        finally:
            stop.set()


def test_the_source_reads_all_brokers_and_the_sink_writes_to_the_one_that_is_named(
    spark: SparkSession, nameserver: NameServerProcess, tmp_path: Path
) -> None:
    with (
        registered(tmp_path, "broker-a", nameserver) as first,
        registered(tmp_path, "broker-b", nameserver) as second,
        connect(first) as a,
        connect(second) as b,
    ):
        produce(a, "orders", "at a")
        produce(b, "orders", "at b")
        read = spark.read.format("lakemq").option("nameservers", nameserver.url).option("subscribe", "orders").load()
        rows = {(row.broker, bytes(row.body).decode()) for row in read.collect()}
        assert rows == {("broker-a", "at a"), ("broker-b", "at b")}
        written = spark.range(3).selectExpr("CAST(id AS STRING) AS body").write.format("lakemq").mode("append")
        written.option("nameservers", nameserver.url).option("broker", "broker-b").option("topic", "t").save()
        assert sorted(message["body"] for message in pull_all(b, "t")) == ["0", "1", "2"]
        assert pull_all(a, "t") == []


def test_no_name_server_is_an_error_that_says_so(nameserver: NameServerProcess) -> None:
    with pytest.raises(BrokerUnavailable, match="no name server answers"):
        find_brokers([NOBODY], 0)
    with pytest.raises(NoAnswer, match="there are no name servers"):
        NameServers([]).primaries()
    assert find_brokers([NOBODY, nameserver.url], 0) == {}


def test_what_is_no_name_server_is_passed_over(nameserver: NameServerProcess, tmp_path: Path) -> None:
    with (
        start_gateway(tmp_path / "data") as gateway,
        closing(NameServers([gateway.url, nameserver.url])) as both,
        closing(NameServers([gateway.url])) as one,
    ):
        assert both.primaries() == {}
        with pytest.raises(NoAnswer, match="answered 404"):
            one.primaries()


def test_options_name_brokers_or_name_servers() -> None:
    for given in ({}, {"broker": NOBODY, "nameservers": NOBODY}):
        with pytest.raises(InvalidOption, match="nameservers"):
            parse_options(given)
    assert parse_options({"nameServers": f"{NOBODY},{NOBODY}2"}).nameservers == (NOBODY, f"{NOBODY}2")
    options = parse_sink_options({"nameservers": NOBODY, "broker": "broker-a", "topic": "t"}, streaming=False)
    assert (options.nameservers, options.broker) == ((NOBODY,), "broker-a")
