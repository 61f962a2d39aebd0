"""Messages whose sender chooses their queue, against real gateways."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from lakemq.client import Message, MessageQueue, Producer, Unreachable, aio
from lakemq.model.errors import InvalidRequest, LakemqError, QueueNotFound, TopicNotFound
from lakemq.testing import GatewayProcess, start_gateway
from tests.client.consuming import is_there, make_topic, put, wait_until
from tests.client.producing import bodies, stored


@pytest.fixture(scope="module")
def urls(two_brokers: tuple[GatewayProcess, GatewayProcess]) -> list[str]:
    return [each.url for each in two_brokers]


@pytest.fixture
def producer(urls: list[str]) -> Iterator[Producer]:
    with Producer(urls) as made:
        yield made


def test_a_message_goes_to_the_queue_that_is_named_at_its_broker(
    urls: list[str], producer: Producer, topic: str
) -> None:
    for url in urls:
        make_topic(url, topic, 2)
    queues = [MessageQueue(topic, broker, number) for broker in ("broker-a", "broker-b") for number in range(2)]
    for queue in queues:
        receipt = producer.send(topic, str(queue), queue=queue)
        assert (receipt.broker, receipt.queue_id) == queue[1:]
        assert producer.send_async(topic, Message(body="more"), queue=queue).result().broker == queue.broker
        producer.send_oneway(topic, b"one way", queue=queue)
        assert {each.broker for each in producer.send_batch(topic, ["x", "y"], queue=queue)} == {queue.broker}
    producer.flush()
    for url in urls:
        assert sorted({each.queue_id: 0 for each in stored(url, topic)}) == [0, 1]
        assert len(bodies(url, topic)) == 10


def test_a_selector_chooses_among_the_queues_of_all_brokers_by_the_message(
    urls: list[str], producer: Producer, topic: str
) -> None:
    for url in urls:
        make_topic(url, topic, 2)
    offered: list[list[MessageQueue]] = []

    def by_customer(queues: list[MessageQueue], message: Message) -> MessageQueue:
        offered.append(list(queues))
        queues.reverse()  # the list is the selector's own
        assert message.properties is not None
        return sorted(queues)[crc32(message.properties["customer"].encode()) % len(queues)]

    places: dict[str, set[tuple[str, int]]] = {}
    for number in range(40):
        customer = f"c{number % 8}"
        receipt = producer.send(topic, b"x", properties={"customer": customer}, queue_selector=by_customer)
        places.setdefault(customer, set()).add((receipt.broker, receipt.queue_id))
    assert all(len(each) == 1 for each in places.values())
    assert len(set().union(*places.values())) > 1
    assert all(each == sorted(each) for each in offered)
    assert {len(each) for each in offered} == {4}


def test_a_delayed_message_goes_where_its_sender_said(urls: list[str], producer: Producer, topic: str) -> None:
    for url in urls:
        make_topic(url, topic, 3)
    for broker in ("broker-a", "broker-b"):
        receipt = producer.send(topic, b"late", delay=timedelta(milliseconds=1), queue=MessageQueue(topic, broker, 2))
        assert receipt.broker == broker
    for url in urls:
        wait_until(lambda url=url: bool(stored(url, topic)))
        assert [each.queue_id for each in stored(url, topic)] == [2]


def test_messages_of_one_chosen_queue_keep_their_order(gateway: GatewayProcess, topic: str) -> None:
    make_topic(gateway.url, topic, 2)
    with Producer(gateway.url) as producer:
        for number in range(500):
            producer.send_async(topic, str(number), queue_selector=lambda queues, _: queues[1])
    assert bodies(gateway.url, topic) == [str(number).encode() for number in range(500)]


def test_a_topic_that_is_not_there_is_made_before_one_chooses(gateway: GatewayProcess, topic: str) -> None:
    with Producer(gateway.url) as producer:
        assert producer.send(topic, b"x", queue_selector=lambda queues, _: queues[-1]).queue_id == 3
        with pytest.raises(TopicNotFound):
            producer.send("%RETRY%nobody", b"x", queue_selector=lambda queues, _: queues[0])
    assert is_there(gateway.url, topic)


def test_what_a_selector_raises_is_the_senders_and_nothing_is_sent(
    producer: Producer, urls: list[str], topic: str
) -> None:
    make_topic(urls[0], topic)

    def fails(queues: list[MessageQueue], message: Message) -> MessageQueue:
        raise KeyError("customer")

    async def chooses(queues: list[MessageQueue], message: Message) -> MessageQueue:
        return queues[0]

    with pytest.raises(KeyError, match="customer"):
        producer.send_async(topic, b"x", queue_selector=fails)
    selectors: list[Any] = [chooses, lambda *_: None, lambda *_: 1, lambda *_: MessageQueue(topic, "elsewhere", 0), 7]  # pyright: ignore[reportUnknownLambdaType]
    for selector in selectors:
        with pytest.raises(InvalidRequest):
            producer.send(topic, b"x", queue_selector=selector)
    assert bodies(urls[0], topic) == []


def test_a_queue_that_there_is_not_or_is_of_another_topic_is_refused(
    producer: Producer, urls: list[str], topic: str
) -> None:
    make_topic(urls[0], topic, 1)
    there = MessageQueue(topic, "broker-a", 0)
    for queue in (there._replace(queue_id=1), there._replace(broker="elsewhere")):
        with pytest.raises(QueueNotFound):
            producer.send(topic, b"x", queue=queue)
        with pytest.raises(QueueNotFound):
            producer.send_batch(topic, [b"x"], queue=queue)
    wrong: list[Any] = [
        {"queue": there._replace(topic="another")},
        {"queue": 0},
        {"queue": there, "queue_selector": lambda queues, _: queues[0]},  # pyright: ignore[reportUnknownLambdaType]
        {"queue": there, "queue_id": 0},
    ]
    for given in wrong:
        with pytest.raises(InvalidRequest):
            producer.send(topic, b"x", **given)
    with pytest.raises(InvalidRequest):
        producer.send_batch(topic, [Message(body=b"x", queue_id=0)], queue=there)
    assert bodies(urls[0], topic) == []


def test_a_queue_that_was_added_is_found(producer: Producer, urls: list[str], topic: str) -> None:
    make_topic(urls[0], topic, 1)
    assert producer.send(topic, b"x", queue=MessageQueue(topic, "broker-a", 0)).queue_id == 0
    make_topic(urls[0], topic, 2)
    assert producer.send(topic, b"x", queue=MessageQueue(topic, "broker-a", 1)).queue_id == 1


def test_while_the_broker_of_the_queue_is_away_it_is_an_error_and_no_other_queue(
    gateway: GatewayProcess, topic: str, tmp_path: Path
) -> None:
    with start_gateway(tmp_path / "data", broker__name="broker-z") as other:
        for url in (gateway.url, other.url):
            make_topic(url, topic, 1)
        with Producer([gateway.url, other.url], timeout_s=1.0, attempt_timeout_s=1.0) as producer:
            queue = MessageQueue(topic, "broker-z", 0)

            def is_sent() -> bool:
                with suppress(LakemqError):  # on a slow machine not even this is done in so short a time
                    assert producer.send(topic, b"there", queue=queue).broker == "broker-z"
                    return True
                return False

            wait_until(is_sent)
            other.kill()
            with pytest.raises(Unreachable):
                producer.send(topic, b"away", queue=queue)
            with pytest.raises(Unreachable):
                producer.send(topic, b"away", queue_selector=lambda queues, _: queues[-1])
    assert bodies(gateway.url, topic) == []


def test_with_asyncio_too(urls: list[str], topic: str) -> None:
    put(urls[1], topic, ["made"])

    async def test() -> None:
        queue = MessageQueue(topic, "broker-b", 2)
        async with aio.Producer(urls) as producer:
            assert (await producer.send(topic, b"x", queue=queue)).queue_id == 2
            future = await producer.send_async(topic, "y", tag="t", queue_selector=lambda queues, _: queues[1])
            assert (await future).queue_id == 1
            await producer.send_oneway(topic, "z", queue_selector=lambda queues, _: queues[0])
            assert {each.queue_id for each in await producer.send_batch(topic, ["b"], queue=queue)} == {2}
            with pytest.raises(ZeroDivisionError):
                await producer.send(topic, b"x", queue_selector=lambda queues, _: queues[1 // 0])
            with pytest.raises(QueueNotFound):
                await producer.send(topic, b"x", queue=queue._replace(queue_id=7))

    asyncio.run(test())
    assert len(bodies(urls[1], topic)) == 5
