"""Consumers of all kinds answer requests."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakemq.client import MessageView, Producer, PullConsumer, PushConsumer, SimpleConsumer, aio
from lakemq.model.errors import InvalidRequest, RequestNotFound
from lakemq.testing import GatewayProcess
from tests.client.consuming import make_topic, put


@pytest.fixture
def asked(gateway: GatewayProcess, topic: str) -> str:
    make_topic(gateway.url, topic)
    return topic


def ask(url: str, topic: str) -> MessageView:
    with Producer(url) as producer:
        return producer.request(topic, "question", timeout_s=60)


def test_a_listener_replies(gateway: GatewayProcess, asked: str, group: str) -> None:
    def listener(message: MessageView) -> None:
        consumer.reply(message, message.text().upper(), tag="T", properties={"a": "b"})

    with PushConsumer(group, listener, brokers=gateway.url) as consumer:
        consumer.subscribe(asked)
        answer = ask(gateway.url, asked)
    assert (answer.text(), answer.tag, answer.properties["a"]) == ("QUESTION", "T", "b")


def test_a_listener_of_the_asyncio_face_replies(gateway: GatewayProcess, asked: str, group: str) -> None:
    async def run() -> MessageView:
        async def listener(message: MessageView) -> None:
            await consumer.reply(message, b"\xff")

        async with aio.PushConsumer(group, listener, brokers=gateway.url) as consumer:
            await consumer.subscribe(asked)
            return await asyncio.to_thread(ask, gateway.url, asked)

    assert asyncio.run(run()).body == b"\xff"


def test_who_polls_or_receives_replies_once(gateway: GatewayProcess, asked: str, group: str) -> None:
    with (
        ThreadPoolExecutor() as threads,
        PullConsumer(group, brokers=gateway.url) as pulling,
        SimpleConsumer(f"{group}-simple", brokers=gateway.url) as simple,
    ):
        pulling.assign(pulling.queues_of(asked))
        answer = threads.submit(ask, gateway.url, asked)
        [question] = pulling.poll(wait_s=60)
        pulling.reply(question, "polled")
        assert answer.result(60).text() == "polled"
        with pytest.raises(RequestNotFound):
            pulling.reply(question, "again")
        simple.ack(simple.receive(asked))
        answer = threads.submit(ask, gateway.url, asked)
        [question] = simple.receive(asked)
        simple.reply(question, "received")
        assert answer.result(60).text() == "received"
        simple.ack(question)
        put(gateway.url, asked, ["no question"])
        with pytest.raises(InvalidRequest, match="no request"):
            simple.reply(simple.receive(asked)[0], "?")
