"""Which brokers there are and where queues lie: against a real gateway, and with a source of a test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from lakemq.client import BrokerAddress, Closed, MessageQueue, Unreachable, aio, routes
from lakemq.client.address_list import AddressList
from lakemq.client.addresses import find_addresses, parse_addresses
from lakemq.client.http import HttpClient
from lakemq.client.route_source import FORGET_S, REFRESH_S
from lakemq.client.routes import Cluster
from lakemq.client.transport import Transport
from lakemq.contract.routes import BROKER
from lakemq.model.errors import InvalidRequest, LakemqError, TopicNotFound
from lakemq.testing import GatewayProcess, start_gateway
from tests.client.producing import DEAD


class LoopWithAClock(asyncio.SelectorEventLoop):
    """An event loop whose clock a test moves forward."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


def run(test: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=LoopWithAClock) as runner:
        runner.run(test)


def pass_s(seconds: float) -> None:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, LoopWithAClock)
    loop.ahead_s += seconds


async def settle() -> None:
    """Let what runs in the background come to its end: nothing here waits for anything real."""
    for _ in range(5):
        await asyncio.sleep(0)


class Source:
    """Routes as a name server might give them. `queues` None: the topic isn't there."""

    def __init__(self) -> None:
        self.asked = 0
        self.queues: int | None = 2
        self.error: LakemqError | None = None

    async def brokers(self) -> list[BrokerAddress]:
        return [BrokerAddress("b", DEAD)]

    async def routes(self, topic: str) -> list[MessageQueue]:
        self.asked += 1
        if self.error is not None:
            raise self.error
        if self.queues is None:
            raise TopicNotFound(topic)
        return [MessageQueue(topic, "b", queue_id) for queue_id in range(self.queues)]


def test_routes_are_kept_and_asked_for_anew_in_the_background() -> None:
    async def test() -> None:
        source = Source()
        cluster = Cluster(source=source)
        both = await asyncio.gather(cluster.queues("orders"), cluster.queues("orders"))
        assert (len(both[0]), source.asked) == (2, 1)
        source.queues = 4
        assert (len(await cluster.queues("orders")), source.asked) == (2, 1)
        pass_s(REFRESH_S + 1)
        assert len(await cluster.queues("orders")) == 2
        await settle()
        assert (len(await cluster.queues("orders")), source.asked) == (4, 2)
        source.queues = 5
        assert (len(await cluster.queues("orders", fresh=True)), source.asked) == (5, 3)
        cluster.forget("orders")
        assert (len(await cluster.queues("orders")), source.asked) == (5, 4)
        await cluster.close()

    run(test())


def test_what_can_not_be_asked_for_anew_is_believed_for_two_minutes() -> None:
    async def test() -> None:
        source = Source()
        cluster = Cluster(source=source)
        await cluster.queues("orders")
        source.error = Unreachable("nobody there")
        pass_s(REFRESH_S + 1)
        assert len(await cluster.queues("orders")) == 2
        await settle()
        pass_s(FORGET_S)
        with pytest.raises(Unreachable):
            await cluster.queues("orders")
        await cluster.close()

    run(test())


def test_a_topic_that_is_gone_is_forgotten() -> None:
    async def test() -> None:
        source = Source()
        cluster = Cluster(source=source)
        await cluster.queues("orders")
        source.queues = None
        pass_s(REFRESH_S + 1)
        assert len(await cluster.queues("orders")) == 2
        await settle()
        with pytest.raises(TopicNotFound):
            await cluster.queues("orders")
        with pytest.raises(Unreachable, match="'c'"):
            await cluster.find("c")
        assert (await cluster.find("b")).address == DEAD
        await cluster.close()
        with pytest.raises(Closed):
            await cluster.primary("b").get(BROKER.at())

    run(test())


def test_topics_that_are_not_there_are_not_remembered_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "TOPICS_MAX", 5)

    async def test() -> None:
        source = Source()
        source.queues = None
        cluster = Cluster(source=source)
        for number in range(20):
            for topic in ("again", f"nobody-has-{number}"):
                with pytest.raises(TopicNotFound):
                    await cluster.queues(topic)
        used = cluster._used_s  # pyright: ignore[reportPrivateUsage]
        assert len(used) == 5
        assert "again" in used, "what goes on being used stays"
        await cluster.close()

    run(test())


def test_a_source_that_names_no_broker_is_asked_again() -> None:
    class Empty(Source):
        def __init__(self) -> None:
            super().__init__()
            self.named: list[BrokerAddress] = []

        async def brokers(self) -> list[BrokerAddress]:
            return self.named

    async def test() -> None:
        source = Empty()
        cluster = Cluster(source=source)
        for fresh in (False, True):
            with pytest.raises(Unreachable, match="no broker is known") as raised:
                await cluster.brokers(fresh)
            assert not raised.value.sent
        source.named = [BrokerAddress("b", DEAD)]
        assert await cluster.brokers() == source.named
        await cluster.close()

    run(test())


def test_a_producer_goes_where_its_source_says(gateway: GatewayProcess, topic: str) -> None:
    class Here(Source):
        async def brokers(self) -> list[BrokerAddress]:
            return [BrokerAddress("broker-a", gateway.url)]

        async def routes(self, topic: str) -> list[MessageQueue]:
            return [MessageQueue(topic, "broker-a", 0)]

    async def test() -> None:
        async with aio.Producer(routes=Here()) as producer:
            assert {(await producer.send(topic, "x", ordering_key=f"{key}")).queue_id for key in range(9)} == {0}

    asyncio.run(test())


def test_a_broker_that_does_not_answer_keeps_its_queues_for_two_minutes(tmp_path: Path) -> None:
    async def test(first: GatewayProcess, second: GatewayProcess) -> None:
        transports: dict[str, Transport] = {}
        routes = AddressList([first.url, second.url, DEAD], lambda url: transports.setdefault(url, Transport(url)))
        assert [broker.name for broker in await routes.brokers()] == ["a", "b"]
        with pytest.raises(TopicNotFound):
            await routes.route("orders")
        for url in (first.url, second.url):
            with HttpClient(url) as http:
                http.create_topic("orders", 2)
        everything = [MessageQueue("orders", broker, queue_id) for broker in "ab" for queue_id in range(2)]
        assert (await routes.route("orders")).queues == everything
        first.kill()
        assert (await routes.route("orders")).queues == everything
        with HttpClient(second.url) as http:
            http.delete_topic("orders")
        assert (await routes.route("orders")).queues == everything[:2]
        pass_s(FORGET_S + 1)
        with pytest.raises(LakemqError):
            await routes.route("orders")
        for transport in transports.values():
            await transport.close()

    with (
        start_gateway(tmp_path / "a", broker__name="a") as first,
        start_gateway(tmp_path / "b", broker__name="b") as second,
    ):
        run(test(first, second))


@pytest.mark.parametrize(
    ("given", "addresses"),
    [
        ("http://a:1", ["http://a:1"]),
        (" http://a:1/ , https://b:2,http://a:1", ["http://a:1", "https://b:2"]),
        (["http://a:1", "http://b:2"], ["http://a:1", "http://b:2"]),
        (None, ["http://from-the-environment:1"]),
    ],
)
def test_addresses_are_a_list_or_text(given: Any, addresses: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEMQ_BROKER", "http://from-the-environment:1")
    assert find_addresses(given).brokers == addresses


@pytest.mark.parametrize(
    "given", ["", " , ", [], "localhost:8080", "http://", "http://[::1", "http://a:99999", "http://a?b"]
)
def test_what_is_no_address_is_refused(given: Any) -> None:
    with pytest.raises(InvalidRequest):
        parse_addresses(given, "brokers")


def test_who_asks_for_the_brokers_as_an_answer_comes_has_the_answer() -> None:
    """Regression: the brokers were read where they are kept, a step before they were put there."""

    async def test() -> None:
        cluster = Cluster(source=Source())
        first = asyncio.ensure_future(cluster.brokers())
        await asyncio.sleep(0)
        second = asyncio.ensure_future(cluster.brokers())
        assert await second == await first == [BrokerAddress("b", DEAD)]
        await cluster.close()

    run(test())
