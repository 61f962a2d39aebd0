"""Groups whose topic two brokers have, which register with a name server by themselves."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lakemq.client import MessageView, Producer, PushConsumer
from lakemq.client.consume import push_engine
from lakemq.client.consume.member import every
from lakemq.client.http import HttpClient
from lakemq.model.message_queue import MessageQueue
from lakemq.model.rebalance import averagely
from lakemq.testing import GatewayProcess, start_gateway
from tests.client.consumer_process import ConsumerProcess
from tests.client.consuming import Seen, make_topic, numbered, offsets, put, view, wait_until
from tests.client.name_server import NameServer
from tests.ports import free_port

EXPIRY: dict[str, Any] = {"groups__member_expiry_ms": 8_000, "groups__lock_expiry_ms": 10_000}


class Fleet(NamedTuple):
    """A name server and two brokers that expire their members soon; not so soon that a busy machine does it."""

    nameserver: str
    brokers: dict[str, GatewayProcess]

    def make(self, topic: str, queues: int) -> list[MessageQueue]:
        """Make a topic on both."""
        for gateway in self.brokers.values():
            make_topic(gateway.url, topic, queues)
        return [MessageQueue(topic, name, number) for name in self.brokers for number in range(queues)]


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with ExitStack() as stack:
        server = stack.enter_context(NameServer())
        brokers = {
            name: stack.enter_context(
                start_gateway(
                    tmp_path_factory.mktemp(name) / "data",
                    broker__name=name,
                    fleet__nameservers=server.url,
                    **EXPIRY,
                )
            )
            for name in "ab"
        }
        wait_until(lambda: len(server.brokers()) == 2)
        yield Fleet(server.url, brokers)


def shared(every: list[MessageQueue], *consumers: PushConsumer) -> Callable[[], bool]:
    """Whether each queue has its owner, and no other."""

    def check() -> bool:
        expected = averagely(every, [consumer.client_id for consumer in consumers])
        return all(
            [queue for queue in consumer.queues if queue.topic == every[0].topic] == expected[consumer.client_id]
            for consumer in consumers
        )

    return check


def test_queues_of_all_brokers_are_shared_out_and_order_is_kept(fleet: Fleet, topic: str, group: str) -> None:
    every = fleet.make(topic, 2)
    by_key: dict[str, list[int]] = defaultdict(list)
    lock = threading.Lock()

    def listen(message: MessageView) -> None:
        key, _, number = message.text().partition(":")
        with lock:
            by_key[key].append(int(number))

    def member(name: str) -> PushConsumer:
        consumer = PushConsumer(
            group, listen, nameservers=fleet.nameserver, consume_from="first", orderly=True, client_id=name
        )
        consumer.subscribe(topic)
        return consumer

    with Producer(nameservers=fleet.nameserver) as producer, member("one") as one:
        wait_until(shared(every, one))
        with member("two") as two:
            wait_until(shared(every, one, two))
            for number in range(40):
                for key in range(8):
                    producer.send_async(topic, f"{key}:{number}", ordering_key=f"{key}")
            producer.flush()
            wait_until(lambda: sum(map(len, by_key.values())) == 320)
            locked = [entry for gateway in fleet.brokers.values() for entry in view(gateway.url, group)["locks"]]  # pyright: ignore[reportGeneralTypeIssues, reportUnknownVariableType]
            assert len(locked) >= len(every), "each queue is locked at its broker"
        wait_until(shared(every, one))
    assert dict(by_key) == {f"{key}": list(range(40)) for key in range(8)}
    for gateway in fleet.brokers.values():
        with HttpClient(gateway.url) as http:
            ends = {queue["queue_id"]: queue["max_offset"] for queue in http.topic(topic)["queues"]}
        assert offsets(gateway.url, group, topic) == ends
        assert sum(ends.values()) > 0


def test_the_queues_of_a_killed_member_move_at_both_brokers(fleet: Fleet, topic: str, group: str) -> None:
    every = fleet.make(topic, 2)
    texts = {name: numbered(100, name) for name in fleet.brokers}
    for name, gateway in fleet.brokers.items():
        put(gateway.url, topic, texts[name])
    seen = Seen()
    with ConsumerProcess(fleet.nameserver, group, topic, False, 0.01, nameserver=True) as victim:
        wait_until(lambda: len(victim.texts) > 10)
        with PushConsumer(group, seen.add, nameservers=fleet.nameserver, consume_from="first") as other:
            other.subscribe(topic)
            wait_until(lambda: len([queue for queue in other.queues if queue.topic == topic]) == 2)
            victim.kill()
            wait_until(shared(every, other))
            wait_until(lambda: {*texts["a"], *texts["b"]} <= {*victim.texts, *seen.texts})
            for queue in every:  # what comes before is done, or begun, by whoever sees the last
                put(fleet.brokers[queue.broker].url, topic, [f"last {queue}"], queue_id=queue.queue_id)
            seen.wait([f"last {queue}" for queue in every])
    for gateway in fleet.brokers.values():
        assert offsets(gateway.url, group, topic) == dict.fromkeys(range(2), 51)


def test_a_broker_that_is_drained_keeps_its_consumers_and_one_that_may_not_be_read_loses_them(
    fleet: Fleet, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits_often: Callable[..., Any] = lambda seconds, what: every(0.1, what)  # noqa: E731
    monkeypatch.setattr(push_engine, "every", commits_often)
    queues = fleet.make(topic, 2)
    seen = Seen()
    drained, other = fleet.brokers.values()
    with (
        Producer(nameservers=fleet.nameserver) as producer,
        PushConsumer(group, seen.add, nameservers=fleet.nameserver, consume_from="first") as consumer,
    ):
        consumer.subscribe(topic)
        put(drained.url, topic, numbered(20, "before"))
        seen.wait(numbered(20, "before"))
        _permit(drained, topic, "r")
        assert {producer.send(topic, text).broker for text in numbered(6)} == {"b"}
        seen.wait(numbered(6))
        assert shared(queues, consumer)()
        put(other.url, topic, ["more"])
        seen.wait(["more"])
        wait_until(lambda: sum(offsets(other.url, group, topic).values()) == 7)  # or it would come again
        _permit(other, topic, "w")
        wait_until(lambda: {queue.broker for queue in consumer.queues if queue.topic == topic} == {"a"})
        put(other.url, topic, ["nobody reads it"])
        _permit(other, topic, "rw")
        wait_until(shared(queues, consumer))
        seen.wait(["nobody reads it"])
    assert len(seen.texts) == len(set(seen.texts)), "what was committed did not come again"
    assert offsets(drained.url, group, topic) == dict.fromkeys(range(2), 10)


def _permit(gateway: GatewayProcess, topic: str, permission: str) -> None:
    with HttpClient(gateway.url) as http:
        http.create_topic(topic, 2, permission)


def test_a_restart_of_one_broker_moves_no_queue(tmp_path: Path, topic: str, group: str) -> None:
    port = free_port()
    with ExitStack() as stack:
        server = stack.enter_context(NameServer())
        options: dict[str, Any] = {"fleet__nameservers": server.url}
        stays = stack.enter_context(start_gateway(tmp_path / "a", broker__name="a", **options))
        options |= {"broker__name": "b", "gateway__port": port}
        goes = start_gateway(tmp_path / "b", **options)
        fleet = Fleet(server.url, {"a": stays, "b": goes})
        every = fleet.make(topic, 2)
        wait_until(lambda: len(server.brokers_of(topic)) == 2)
        seen = Seen()
        consumer = PushConsumer(group, seen.add, nameservers=server.url, consume_from="first")
        stack.enter_context(consumer).subscribe(topic)
        wait_until(shared(every, consumer))
        held = consumer._engine._held  # pyright: ignore[reportPrivateUsage]
        before = {queue: held[queue] for queue in every}
        goes.stop()  # and says goodbye
        wait_until(lambda: len(server.brokers_of(topic)) == 1)
        put(stays.url, topic, ["meanwhile"])
        seen.wait(["meanwhile"])
        goes = stack.enter_context(start_gateway(tmp_path / "b", **options))
        put(goes.url, topic, ["again"])
        seen.wait(["again"])
        assert {queue: held[queue] for queue in every} == before, "each is held as it was, and not taken anew"
