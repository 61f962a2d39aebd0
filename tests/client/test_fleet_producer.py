"""Producers whose topic several brokers have: who takes a message, when one is drained, down, or back."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from lakemq.client import Message, Producer, Resolution, TransactionListener, TransactionProducer, Unreachable
from lakemq.client.http import HttpClient
from lakemq.client.prober import Prober
from lakemq.client.routes import Cluster
from lakemq.model.errors import MessageTooLarge, ReadOnlyTopic, TopicNotFound
from lakemq.testing import GatewayProcess, MemoryBroker, start_gateway
from tests.client.consuming import make_topic
from tests.client.producing import DEAD, bodies, reaches, stored
from tests.client.test_producer_faults import two_gateways
from tests.ports import free_port

WAIT_S_MAX = 60.0


@pytest.fixture(scope="module")
def urls() -> Iterator[list[str]]:
    """Brokers `a` and `b`, and `c`, which makes no topic by itself."""
    with ExitStack() as stack:
        made = [MemoryBroker(broker__name=name, topics__auto_create=name != "c") for name in "abc"]
        yield [stack.enter_context(broker).url for broker in made]


def set_permission(url: str, topic: str, permission: str) -> None:
    with HttpClient(url) as http:
        http.create_topic(topic, 2, permission)


# What brokers take -----------------------------------------------------------------------------------


def test_a_broker_that_may_not_be_written_is_left_out(urls: list[str], topic: str) -> None:
    one, two, _ = urls
    set_permission(one, topic, "r")
    set_permission(two, topic, "rw")
    with Producer([one, two]) as producer:
        assert {producer.send(topic, "x").broker for _ in range(4)} == {"b"}
        assert {producer.send(topic, "x", ordering_key=f"{key}").broker for key in range(9)} == {"b"}
        assert producer.send(topic, "x", queue_id=1).broker == "b"


def test_one_that_is_drained_meanwhile_is_left_out_as_it_says_so(urls: list[str], topic: str) -> None:
    one, two, _ = urls
    for url in (one, two):
        make_topic(url, topic, 2)
    with Producer([one, two]) as producer:
        assert reaches(producer, topic, "a", "b")
        set_permission(one, topic, "r")
        assert {producer.send(topic, "x").broker for _ in range(4)} == {"b"}
        set_permission(two, topic, "r")
        with pytest.raises(ReadOnlyTopic):
            producer.send(topic, "x")


# One name for all copies -----------------------------------------------------------------------------


def test_only_where_several_have_the_topic_a_message_has_a_name(urls: list[str], topic: str) -> None:
    one, two, _ = urls
    with Producer(one) as producer:
        producer.send(topic, "alone")
    assert [dict(message.properties) for message in stored(one, topic)] == [{}]
    make_topic(two, topic, 4)
    with Producer([one, two], linger_ms=1) as producer:
        producer.send(topic, "with more", properties={"a": "b", "send_id": "another message's"})
        producer.send(topic, "in a queue", queue_id=0)
        producer.send(topic, "in order", ordering_key="k", properties={"a": "b"})
        producer.send_batch(topic, ["whole", Message(body="batch", tag="t")])
        for future in [producer.send_async(topic, f"many {number}") for number in range(100)]:
            future.result()
        producer.send_oneway(topic, "gone")
    with Producer([one, two], duplicates_allowed=False) as producer:
        producer.send(topic, "once")
    messages = {message.text(): dict(message.properties) for url in (one, two) for message in stored(url, topic)}
    plain = ("alone", "in a queue", "gone", "once")
    assert [messages.pop(text) for text in plain] == [{}] * len(plain)
    assert messages.pop("in order") == {"a": "b"}
    names = {properties["send_id"] for properties in messages.values()}
    assert len(names) == len(messages) == 103
    assert messages["with more"]["a"] == "b"
    assert "another message's" not in names


def test_what_hangs_with_one_broker_goes_to_another_and_both_copies_have_one_name(tmp_path: Path) -> None:
    with two_gateways(tmp_path) as (first, second), _producer(first, second) as producer:
        assert reaches(producer, "orders", "a", "b")
        os.kill(first.pid, signal.SIGSTOP)
        try:
            receipts = [producer.send("orders", b"%d" % number) for number in range(6)]
        finally:
            os.kill(first.pid, signal.SIGCONT)
        assert {receipt.broker for receipt in receipts} == {"b"}
        # What one broker answers comes after all that was asked of it before.
        assert _is_used_again(producer, "a")
        copies: dict[bytes, set[str]] = defaultdict(set)
        for gateway in (first, second):
            for message in stored(gateway.url, "orders"):
                copies[message.body].add(message.properties["send_id"])
        assert all(len(copies[b"%d" % number]) == 1 for number in range(6))


def test_what_may_be_stored_is_not_told_to_be_refused(tmp_path: Path) -> None:
    """Regression: what the second broker had against a message was told, as if the first had not had it."""
    with (
        start_gateway(tmp_path / "a", broker__name="a") as first,
        start_gateway(tmp_path / "b", broker__name="b", gateway__message_bytes_max=1_000) as second,
        _producer(first, second) as producer,
    ):
        assert reaches(producer, "orders", "a", "b")
        os.kill(first.pid, signal.SIGSTOP)
        try:
            errors = [producer.send_async("orders", bytes(2_000)).exception(WAIT_S_MAX) for _ in range(2)]
        finally:
            os.kill(first.pid, signal.SIGCONT)
    assert [error.sent for error in errors if isinstance(error, Unreachable)] == [True]
    assert sum(isinstance(error, MessageTooLarge) for error in errors) == 1, "who went to the second first"


def test_a_broker_that_is_back_is_used_within_seconds(tmp_path: Path) -> None:
    port = free_port()
    first = start_gateway(tmp_path / "a", broker__name="a", gateway__port=port)
    with start_gateway(tmp_path / "b", broker__name="b") as second:
        for gateway in (first, second):
            make_topic(gateway.url, "orders", 2)
        with _producer(first, second) as producer:
            assert reaches(producer, "orders", "a", "b")
            first.kill()
            assert {producer.send("orders", b"x").broker for _ in range(6)} == {"b"}
            with start_gateway(tmp_path / "a", broker__name="a", gateway__port=port):
                assert _is_used_again(producer, "a"), "by the table alone it is avoided for three minutes"


def _producer(first: GatewayProcess, second: GatewayProcess) -> Producer:
    return Producer([first.url, second.url], timeout_s=60, attempt_timeout_s=2, retries=20)


def _is_used_again(producer: Producer, name: str) -> bool:
    deadline_s = time.monotonic() + WAIT_S_MAX
    while time.monotonic() < deadline_s:
        if producer.send("orders", b"again?").broker == name:
            return True
        time.sleep(0.02)
    return False


def test_what_is_ordered_and_what_is_in_a_transaction_waits_for_its_broker(tmp_path: Path) -> None:
    class Commits(TransactionListener):
        def execute_local_transaction(self, message: object, transaction_id: str, argument: object) -> Resolution:
            return Resolution.COMMIT

        def check_local_transaction(self, message: object) -> Resolution:
            return Resolution.COMMIT

    with (
        two_gateways(tmp_path) as (first, second),
        TransactionProducer(
            "pays", Commits(), [first.url, second.url], timeout_s=60, attempt_timeout_s=0.5, retries=100
        ) as producer,
    ):
        keys = {producer.send("orders", b"known", ordering_key=f"{key}").broker: f"{key}" for key in range(20)}
        os.kill(first.pid, signal.SIGSTOP)
        try:
            futures = [producer.send_async("orders", b"kept", ordering_key=keys["a"]) for _ in range(3)]
            futures.append(producer.send_async("orders", b"kept", queue_id=0))
            pinned = producer.send_async("orders", b"kept", queue_id=0, delay=0.01)
            assert producer.send("orders", b"other", ordering_key=keys["b"]).broker == "b"
            time.sleep(1.2)  # so that attempts come to nothing
            assert not any(future.done() for future in futures)
        finally:
            os.kill(first.pid, signal.SIGCONT)
        assert {future.result(WAIT_S_MAX).broker for future in futures} == {"a"}
        assert pinned.result(WAIT_S_MAX).broker in ("a", "b")
        places = {future.result().position for future in futures}
        assert len(places) == len(futures), "each is stored once"
        assert producer.send_in_transaction("orders", b"half", ordering_key=keys["b"]).broker == "b"
        assert sum(body == b"kept" for url in (first.url, second.url) for body in bodies(url, "orders")) >= 4


def test_one_that_is_merely_slow_stays_avoided_and_one_that_was_away_does_not(urls: list[str]) -> None:
    async def test() -> None:
        cluster = Cluster([urls[0], urls[1]])
        await cluster.brokers()
        back: list[str] = []
        prober = Prober(cluster, back.append)
        prober.is_late("a")
        prober.failed("b")
        async with asyncio.timeout(WAIT_S_MAX):
            while not back:  # noqa: ASYNC110  there is nothing to wait for but the time
                await asyncio.sleep(0.05)
        assert back == ["b"], "a said at once that it is ready, long before b was asked"
        await prober.close()
        await cluster.close()

    asyncio.run(test())


# Topics that are made by their first message -----------------------------------------------------------


def test_a_topic_is_made_on_all_brokers_that_may(urls: list[str], topic: str) -> None:
    with Producer(urls) as producer:
        assert reaches(producer, topic, "a", "b")
    for url in urls[:2]:
        with HttpClient(url) as http:
            assert len(http.topic(topic)["queues"]) == 4
    with HttpClient(urls[2]) as http, pytest.raises(TopicNotFound):
        http.topic(topic)


def test_a_key_has_its_queue_from_the_first_message_on(urls: list[str], topic: str) -> None:
    with Producer(urls[:2]) as producer:
        places: dict[str, set[tuple[str, int]]] = defaultdict(set)
        for number in range(60):
            key = f"{number % 20}"
            receipt = producer.send(topic, f"{number}", ordering_key=key)
            places[key].add((receipt.broker, receipt.queue_id))
    assert all(len(place) == 1 for place in places.values())
    assert {broker for place in places.values() for broker, _ in place} == {"a", "b"}


def test_a_broker_that_is_down_is_left_out(tmp_path: Path, urls: list[str], topic: str) -> None:
    with (
        start_gateway(tmp_path, broker__name="down") as gateway,
        Producer([gateway.url, *urls[:2]], timeout_s=20) as producer,
    ):
        producer.send("all", "the brokers are known")
        gateway.kill()
        assert reaches(producer, topic, "a", "b")


def test_where_nobody_makes_topics_it_is_an_error(urls: list[str], topic: str) -> None:
    with Producer([urls[2], DEAD]) as producer, pytest.raises(TopicNotFound):
        producer.send(topic, "x")
    with (
        MemoryBroker(broker__name="d", topics__auto_create=False) as other,
        Producer([urls[2], other.url]) as producer,
        pytest.raises(TopicNotFound),
    ):
        producer.send(topic, "x", ordering_key="k")
