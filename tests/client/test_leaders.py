"""Clients of a broker with replicas: to whom they go, and that they don't lose their place as another one leads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lakemq.client import (
    MessageQueue,
    Producer,
    PullConsumer,
    PushConsumer,
    Resolution,
    SimpleConsumer,
    TransactionListener,
    TransactionProducer,
    Unreachable,
    aio,
    broker_requests,
)
from lakemq.client.http import HttpClient
from lakemq.jobs.log_client import LogClient
from lakemq.model.errors import InvalidRequest, TopicNotFound
from lakemq.testing import GatewayProcess, start_gateway
from tests.client.consuming import Seen, numbered, put, wait_until
from tests.client.name_server import NameServer
from tests.client.producing import bodies
from tests.gateway.fleet.following import SMALL, start_follower, wait_for
from tests.gateway.http_client import connect
from tests.ports import free_port


class Pair(NamedTuple):
    """A broker's two replicas."""

    primary: GatewayProcess
    follower: GatewayProcess

    def wait(self) -> None:
        """Wait until the follower has all that the primary has."""
        with connect(self.primary) as leads, connect(self.follower) as follows:
            wait_for(follows, leads)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """One for all tests that stop neither."""
    folder = tmp_path_factory.mktemp("pair")
    with start_gateway(folder / "primary", **SMALL) as primary, start_follower(folder / "b", primary.url) as follower:
        yield Pair(primary, follower)


def start_replicas(
    stack: ExitStack, folder: Path, named: bool
) -> tuple[dict[str, Any], GatewayProcess, GatewayProcess]:
    """What clients are told, a name server or both addresses; a primary, and its follower, in folders `a` and `b`."""
    server = stack.enter_context(NameServer())
    options: dict[str, Any] = {"fleet__nameservers": server.url} if named else {}
    primary = stack.enter_context(start_gateway(folder / "a", **SMALL, **options))
    follower = stack.enter_context(start_follower(folder / "b", primary.url, gateway__port=free_port(), **options))
    if named:
        wait_until(lambda: bool(server.brokers()) and len(server.brokers()[0]["replicas"]) == 2)
        return {"nameservers": server.url}, primary, follower
    return {"brokers": [primary.url, follower.url]}, primary, follower


def queues_of(consumer: PullConsumer, topic: str) -> list[MessageQueue]:
    """The topic's queues, once name servers have heard of it."""
    found: list[MessageQueue] = []

    def ask() -> bool:
        with suppress(TopicNotFound):
            found[:] = consumer.queues_of(topic)
        return bool(found)

    wait_until(ask)
    return found


@pytest.mark.parametrize("both", [False, True])
def test_who_is_given_a_follower_goes_to_the_primary(pair: Pair, topic: str, group: str, both: bool) -> None:
    given = [pair.follower.url, pair.primary.url] if both else [pair.follower.url]
    seen = Seen()
    with Producer(given) as producer, PushConsumer(group, seen.add, brokers=given, consume_from="first") as consumer:
        consumer.subscribe(topic)
        sent = [f"{producer.send(topic, f'{number}').queue_offset}" for number in range(3)]
        assert producer.send(topic, "in order", ordering_key="k").broker == "broker-a"
        wait_until(lambda: len(seen.messages) == len(sent) + 1)
    assert len(bodies(pair.primary.url, topic)) == len(sent) + 1
    with SimpleConsumer(f"{group}-simple", brokers=given) as simple:
        received = simple.receive(topic, wait_s=5)
        assert simple.ack(received) == ["ok"] * len(received)
        assert received


def test_with_asyncio_and_in_a_transaction_too(pair: Pair, topic: str) -> None:
    class Commit(TransactionListener):
        def execute_local_transaction(self, message: Any, transaction_id: str, argument: Any) -> Resolution:
            return Resolution.COMMIT

        def check_local_transaction(self, message: Any) -> Resolution:
            return Resolution.COMMIT

    async def send() -> None:
        async with aio.Producer(pair.follower.url) as producer:
            await producer.send(topic, "plain")

    asyncio.run(send())
    with TransactionProducer("half", Commit(), brokers=pair.follower.url) as producer:
        assert producer.send_in_transaction(topic, "half").resolution is Resolution.COMMIT
    wait_until(lambda: sorted(bodies(pair.primary.url, topic)) == [b"half", b"plain"])


def test_what_asks_without_an_event_loop_goes_to_the_leader_too(pair: Pair, topic: str) -> None:
    with HttpClient(pair.follower.url) as http:
        assert http.create_topic(topic, 1)
        assert http.broker()["role"] == "follower", "what a follower answers is its own"
    client = LogClient(pair.follower.url, retry_s=0)
    assert client.put_jobs([])["broker"] == "broker-a"
    assert client.address == pair.primary.url
    client.close()


@pytest.mark.parametrize("named", [False, True])
def test_while_there_is_no_primary_its_follower_is_read_and_nothing_is_written(
    tmp_path: Path, named: bool, group: str
) -> None:
    with ExitStack() as stack:
        given, primary, follower = start_replicas(stack, tmp_path, named)
        producer = stack.enter_context(Producer(**given, timeout_s=0.3, attempt_timeout_s=0.3))
        consumer = stack.enter_context(PullConsumer(group, **given, auto_commit=False))
        put(primary.url, "orders", numbered(20))
        Pair(primary, follower).wait()
        queues = queues_of(consumer, "orders")
        consumer.assign(queues)
        primary.kill()
        with pytest.raises(Unreachable) as raised:
            producer.send("orders", "nobody takes it")
        assert not raised.value.sent
        consumer.seek_to_begin(*queues)
        found: list[str] = []
        while len(found) < 20:
            found += [message.text() for message in consumer.poll()]
        assert sorted(found) == sorted(numbered(20))


@pytest.mark.parametrize("named", [False, True])
def test_another_replica_leads_and_nobody_is_told_of_it(
    tmp_path: Path, named: bool, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By hand, as without an election: both are killed, and the follower's folder is started as the primary's."""
    monkeypatch.setattr(broker_requests, "SWITCH_S", 60.0)  # a slow machine takes more than ten seconds for a start
    seen, before, meanwhile = Seen(), numbered(20, "before"), numbered(20, "meanwhile")
    with ExitStack() as stack, ExitStack() as clients:
        given, primary, follower = start_replicas(stack, tmp_path, named)
        producer = clients.enter_context(Producer(**given, timeout_s=60))
        consumer = clients.enter_context(PushConsumer(group, seen.add, orderly=True, consume_from="first", **given))
        simple = clients.enter_context(SimpleConsumer(f"{group}-simple", **given))
        consumer.subscribe("orders")
        for text in before:
            producer.send("orders", text, ordering_key="one")
        received = simple.receive("orders", wait_s=10)
        seen.wait(before)
        Pair(primary, follower).wait()
        primary.kill()
        follower.kill()
        futures = [producer.send_async("orders", text, ordering_key="one") for text in meanwhile]
        with ThreadPoolExecutor() as pool:
            done = pool.submit(simple.ack, received)
            options = {"fleet__nameservers": given["nameservers"]} if named else {}
            port = int(follower.url.rpartition(":")[2])
            again = stack.enter_context(start_gateway(tmp_path / "b", gateway__port=port, **SMALL, **options))
            assert done.result(60) == ["ok"] * len(received)
        assert {future.result(60).broker for future in futures} == {"broker-a"}
        seen.wait(meanwhile)
        assert bodies(again.url, "orders") == [text.encode() for text in before + meanwhile]
        texts = list(dict.fromkeys(seen.texts))
        assert texts == before + meanwhile, "nothing is passed over, and the order is kept"


def test_two_brokers_of_one_name_are_refused(pair: Pair, gateway: GatewayProcess) -> None:
    with (
        PullConsumer("g", brokers=[pair.primary.url, gateway.url]) as consumer,
        pytest.raises(InvalidRequest, match="with different logs"),
    ):
        consumer.queues_of("orders")
