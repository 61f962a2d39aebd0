"""Clients that find their brokers through name servers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from lakemq.client import Producer, PullConsumer, PushConsumer, SimpleConsumer, TransactionProducer, Unreachable, aio
from lakemq.client.addresses import find_addresses
from lakemq.client.http import HttpClient
from lakemq.client.nameservers import POLLS_MAX
from lakemq.client.routes import UNUSED_S, Cluster
from lakemq.model.errors import InvalidRequest, TopicNotFound
from lakemq.model.message_queue import MessageQueue
from lakemq.testing import MemoryBroker
from tests.client.consuming import Seen, make_topic, numbered, put
from tests.client.name_server import NameServer
from tests.client.producing import DEAD, bodies, reaches
from tests.client.test_routes import pass_s, run
from tests.nameserver.asking import NOWHERE
from tests.ports import free_port

WAIT_S_MAX = 60.0


@pytest.fixture(scope="module")
def brokers() -> Iterator[dict[str, str]]:
    """The addresses of brokers `a` and `b`."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(MemoryBroker(broker__name=name)).url for name in "ab"}


def make(brokers: dict[str, str], topic: str, queues: int = 2) -> None:
    for url in brokers.values():
        make_topic(url, topic, queues)


async def until(done: Callable[[], object]) -> None:
    async with asyncio.timeout(WAIT_S_MAX):
        while not done():  # noqa: ASYNC110  what is waited for is in another thread
            await asyncio.sleep(0.005)


def queues(topic: str, name: str, count: int = 2) -> list[MessageQueue]:
    return [MessageQueue(topic, name, number) for number in range(count)]


def test_producers_and_consumers_go_where_the_name_server_says(brokers: dict[str, str], topic: str) -> None:
    make(brokers, topic)
    with NameServer() as server:
        for name, url in brokers.items():
            server.put(name, url, topics={topic: (2, "rw")})
        with Producer(nameservers=server.url) as producer:
            assert reaches(producer, topic, "a", "b")
        for name, url in brokers.items():
            put(url, topic, [f"one at {name}", f"two at {name}"])
        expected = sorted(body.decode() for url in brokers.values() for body in bodies(url, topic))
        found: list[str] = []
        with PullConsumer("pulls", nameservers=[server.url], consume_from="first") as consumer:
            consumer.assign(consumer.queues_of(topic))
            consumer.seek_to_begin()
            while len(found) < len(expected):
                found += [message.text() for message in consumer.poll()]
        with SimpleConsumer("receives", nameservers=server.url) as consumer:
            received: list[str] = []
            while len(received) < len(expected):
                received += [message.text() for message in consumer.receive(topic, wait_s=1)]
        assert sorted(found) == sorted(received) == expected


def test_nothing_is_asked_before_the_first_use_and_nothing_after_the_last(brokers: dict[str, str], topic: str) -> None:
    make(brokers, topic)
    with NameServer() as server:
        server.put("a", brokers["a"], topics={topic: (2, "rw")})

        async def test() -> None:
            cluster = Cluster(nameservers=server.url)
            await asyncio.sleep(0)
            assert server.watchers == 0
            assert await cluster.queues(topic) == queues(topic, "a")
            await until(lambda: server.watchers == 1)
            pass_s(UNUSED_S + 1)
            server.put("a", brokers["a"], topics={topic: (3, "rw")})
            await until(lambda: server.watchers == 0)  # the change was told, and nobody wanted to know
            assert len(await cluster.queues(topic)) == 3
            await until(lambda: server.watchers == 1)
            await cluster.close()
            await until(lambda: server.watchers == 0)

        run(test())


def test_a_change_is_told_as_it_comes(brokers: dict[str, str], topic: str) -> None:
    make(brokers, topic)
    with NameServer() as server:
        server.put("a", NOWHERE, topics={topic: (2, "rw")})

        async def test() -> None:
            cluster = Cluster(nameservers=server.url)
            told: list[list[MessageQueue]] = []
            cluster.follow(lambda: told.append(cluster.known_writers(topic)))  # pyright: ignore[reportArgumentType]
            assert await cluster.queues(topic) == queues(topic, "a")
            assert (await cluster.find("a")).address == NOWHERE
            server.put("a", brokers["a"], topics={topic: (2, "r")})
            await until(lambda: told)
            assert (await cluster.find("a")).address == brokers["a"], "it is elsewhere now"
            server.put("b", brokers["b"], topics={topic: (2, "rw")})
            await until(lambda: ["b"] in told)
            assert await cluster.queues(topic) == queues(topic, "a") + queues(topic, "b"), "both may be read"
            await cluster.close()

        asyncio.run(test())


def test_one_name_server_is_enough_and_without_any_what_is_known_goes_on(
    brokers: dict[str, str], topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    make(brokers, topic)
    port = free_port()

    async def test(one: NameServer, two: NameServer) -> None:
        cluster = Cluster(nameservers=[DEAD, one.url, two.url])
        assert await cluster.queues(topic) == queues(topic, "a")
        one.stop()
        assert await cluster.queues(topic, fresh=True) == queues(topic, "a")
        assert "no name server" not in caplog.text
        two.stop()
        for _ in range(3):
            pass_s(1000)
            assert await cluster.queues(topic) == queues(topic, "a")
            assert [broker.name for broker in await cluster.brokers(fresh=True)] == ["a"]
        assert caplog.text.count("no name server answers") == 1
        with NameServer(port) as again:
            again.put("a", brokers["a"], topics={topic: (3, "rw")})
            await until(lambda: "name servers answer again" in caplog.text)
            assert len(await cluster.queues(topic, fresh=True)) == 3
        await cluster.close()

    with NameServer() as one, NameServer(port) as two, caplog.at_level(logging.WARNING, "lakemq.client"):
        for server in (one, two):
            server.put("a", brokers["a"], topics={topic: (2, "rw")})
        run(test(one, two))


def test_where_no_name_server_ever_answered_it_is_an_error() -> None:
    with (
        Producer(nameservers=DEAD, timeout_s=0.2, attempt_timeout_s=0.2) as producer,
        pytest.raises(Unreachable, match=r"no name server answers|don't say") as raised,
    ):
        producer.send("orders", b"x")
    assert not raised.value.sent


def test_a_broker_that_comes_late_is_waited_for(brokers: dict[str, str], topic: str) -> None:
    make_topic(brokers["a"], topic, 1)
    with NameServer() as server:
        with SimpleConsumer("receives", nameservers=server.url) as consumer, pytest.raises(Unreachable) as raised:
            consumer.receive(topic)
        assert "know no broker" in raised.value.detail
        assert not raised.value.sent
        with Producer(nameservers=server.url, timeout_s=WAIT_S_MAX) as producer:
            early = producer.send_async(topic, "early")
            with pytest.raises(TimeoutError):
                early.exception(0.3)
            server.put("a", brokers["a"], topics={topic: (1, "rw")})
            assert early.result(WAIT_S_MAX).broker == "a"


def test_a_name_server_that_knows_nothing_yet_moves_nothing(brokers: dict[str, str], topic: str) -> None:
    make(brokers, topic)
    port = free_port()

    async def test(before: NameServer) -> None:
        cluster = Cluster(nameservers=before.url)
        told: list[int] = []
        cluster.follow(lambda: told.append(1))
        both = queues(topic, "a") + queues(topic, "b")
        assert await cluster.queues(topic) == both
        before.stop()
        with NameServer(port) as server:
            assert await cluster.queues(topic, fresh=True) == both
            with HttpClient(brokers["b"]) as http:
                http.delete_topic(topic)
            server.put("a", brokers["a"], topics={topic: (2, "rw")})
            await until(lambda: told)
            assert await cluster.queues(topic) == both[:2], "the broker itself has it no more"
            await cluster.close()

    with NameServer(port) as before:
        for name, url in brokers.items():
            before.put(name, url, topics={topic: (2, "rw")})
        asyncio.run(test(before))


def test_a_broker_that_is_gone_keeps_its_queues_for_two_minutes(brokers: dict[str, str], topic: str) -> None:
    make(brokers, topic)

    async def test(server: NameServer, gone: MemoryBroker) -> None:
        cluster = Cluster(nameservers=server.url)
        assert len(await cluster.queues(topic)) == 4
        server.say_goodbye("gone")
        await asyncio.to_thread(gone.stop)
        assert len(await cluster.queues(topic, fresh=True)) == 4, "a restart moves nothing"
        pass_s(121)
        assert await cluster.queues(topic, fresh=True) == queues(topic, "a")
        assert [broker.name for broker in await cluster.brokers(fresh=True)] == ["a"]
        await cluster.close()

    with NameServer() as server, MemoryBroker(broker__name="gone") as gone:
        server.put("a", brokers["a"], topics={topic: (2, "rw")})
        make_topic(gone.url, topic, 2)
        server.put("gone", gone.url, topics={topic: (2, "rw")})
        run(test(server, gone))


def test_many_topics_have_one_poll_together(brokers: dict[str, str], topic: str) -> None:
    names = [f"{topic}-{number}" for number in range(POLLS_MAX + 3)]

    async def test(server: NameServer) -> None:
        cluster = Cluster(nameservers=server.url)
        for name in names:
            assert len(await cluster.queues(name)) == 1
        await until(lambda: server.watchers == 1)
        server.put("b", brokers["b"], topics=dict.fromkeys(names, (2, "rw")))
        await until(lambda: all(cluster.known_writers(name) == ["a", "b"] for name in names))
        await until(lambda: server.watchers == 1)
        await cluster.close()

    with NameServer() as server:
        server.put("a", brokers["a"], topics=dict.fromkeys(names, (1, "rw")))
        asyncio.run(test(server))


def test_a_topic_that_no_broker_has_is_followed_until_one_has_it(brokers: dict[str, str], topic: str) -> None:
    async def test(server: NameServer) -> None:
        cluster = Cluster(nameservers=server.url)
        told: list[int] = []
        cluster.follow(lambda: told.append(1))
        with pytest.raises(TopicNotFound):
            await cluster.queues(topic)
        server.put("a", brokers["a"], topics={topic: (2, "rw")})
        await until(lambda: told)
        assert await cluster.queues(topic) == queues(topic, "a")
        await cluster.close()

    with NameServer() as server:
        asyncio.run(test(server))


def test_a_group_takes_the_queues_of_a_broker_that_comes(brokers: dict[str, str], topic: str, group: str) -> None:
    make(brokers, topic)
    seen = Seen()
    with NameServer() as server:
        server.put("a", brokers["a"], topics={topic: (2, "rw")})
        with (
            Producer(nameservers=server.url) as producer,
            PushConsumer(group, seen.add, nameservers=server.url, consume_from="first") as consumer,
        ):
            consumer.subscribe(topic)
            producer.send(topic, "first")
            seen.wait(["first"])
            server.put("b", brokers["b"], topics={topic: (2, "rw")})
            texts = numbered(20)
            sent_to: set[str] = set()
            while "b" not in sent_to:
                sent_to |= {producer.send(topic, text).broker for text in texts}
            seen.wait(texts)
        with HttpClient(brokers["b"]) as http:
            assert http.group(group)["members"] == [], "it was a member there, and left"
        assert set(bodies(brokers["b"], topic)) <= {text.encode() for text in seen.texts}


# What a program says, and what the environment does ------------------------------------------------


@pytest.mark.parametrize(
    ("given", "brokers", "nameservers"),
    [
        ({"brokers": "http://a:1"}, ["http://a:1"], []),
        ({"nameservers": "http://n:1, http://n:2/"}, [], ["http://n:1", "http://n:2"]),
        ({}, [], ["http://named:1"]),
    ],
)
def test_what_is_said_goes_before_the_environment_and_name_servers_before_brokers(
    given: dict[str, str], brokers: list[str], nameservers: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEMQ_BROKER", "http://from-the-environment:1")
    monkeypatch.setenv("LAKEMQ_NAMESERVERS", "http://named:1")
    assert find_addresses(**given) == (brokers, nameservers)


def test_without_name_servers_the_environment_names_a_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEMQ_NAMESERVERS", "")
    monkeypatch.setenv("LAKEMQ_BROKER", "http://from-the-environment:1")
    assert find_addresses() == (["http://from-the-environment:1"], [])
    monkeypatch.delenv("LAKEMQ_BROKER")
    assert find_addresses() == (["http://127.0.0.1:8080"], [])


class Transfers:
    def execute_local_transaction(self, message: Any, transaction_id: str, argument: Any) -> Any: ...

    def check_local_transaction(self, message: Any) -> Any: ...


FACES: list[Callable[..., Any]] = [
    Producer,
    lambda **options: PushConsumer("g", lambda _: None, **options),
    lambda **options: PullConsumer("g", **options),
    lambda **options: SimpleConsumer("g", **options),
    lambda **options: TransactionProducer("g", Transfers(), **options),
    aio.Producer,
    lambda **options: aio.PullConsumer("g", **options),
    lambda **options: aio.SimpleConsumer("g", **options),
]


@pytest.mark.parametrize("face", FACES)
def test_brokers_and_name_servers_together_are_refused(face: Callable[..., Any]) -> None:
    with pytest.raises(InvalidRequest, match="not both"):
        face(brokers=DEAD, nameservers=DEAD)
    with pytest.raises(InvalidRequest, match="nameservers are addresses"):
        face(nameservers=7)
