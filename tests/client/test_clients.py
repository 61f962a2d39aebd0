"""What clients say of themselves, as a real gateway shows it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from lakemq import __version__
from lakemq.client import Producer, PullConsumer, PushConsumer, TransactionProducer, aio
from lakemq.client.http import HttpClient
from lakemq.client.produce import heartbeats
from lakemq.testing import GatewayProcess
from tests.client.consuming import Seen, make_topic, numbered, put, wait_until


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Producers say at once that they are there."""
    monkeypatch.setattr(heartbeats, "FIRST_S", 0.05)
    monkeypatch.setattr(heartbeats, "HEARTBEAT_S", 0.2)


class Shown:
    """The clients of a group, as the gateway shows them."""

    def __init__(self, gateway: GatewayProcess, **group: str) -> None:
        self._gateway = gateway
        self._group = group

    def __call__(self) -> list[dict[str, Any]]:
        with HttpClient(self._gateway.url) as http:
            return http.clients(**self._group)

    def wait(self, is_so: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """Wait until it is so."""
        wait_until(lambda: is_so(self()))
        return self()


def test_a_push_consumer_says_what_it_has_and_at_once_that_it_is_paused(
    gateway: GatewayProcess, topic: str, group: str
) -> None:
    make_topic(gateway.url, topic, 3)
    seen, shown = Seen(), Shown(gateway, group=group)
    with PushConsumer(group, seen.add, brokers=gateway.url, consume_from="first") as consumer:
        consumer.subscribe(topic)
        put(gateway.url, topic, numbered(5))
        seen.wait(numbered(5))
        consumer.pause()
        (client,) = shown.wait(lambda found: found[0]["paused"] and found[0]["queue_count"] == 3)
        assert (client["client_id"], client["language"], client["version"]) == (
            consumer.client_id,
            "python",
            __version__,
        )
        held = [{"topic": each.topic, "queue_id": each.queue_id} for each in consumer.queues]
        assert client["queues"] == held
        put(gateway.url, topic, numbered(5, "later"))
        consumer.pause(topic)
        shown.wait(lambda found: found[0]["paused"] and found[0]["stuck"] == 0)
        consumer.resume()
        shown.wait(lambda found: not found[0]["paused"])
        seen.wait(numbered(5, "later"))
    assert shown() == []


def test_a_pull_consumer_says_what_it_has(gateway: GatewayProcess, topic: str, group: str) -> None:
    make_topic(gateway.url, topic, 2)
    with PullConsumer(group, brokers=gateway.url) as consumer:
        consumer.subscribe(topic)
        consumer.start()
        (client,) = Shown(gateway, group=group)()
        assert (client["client_id"], client["kind"], client["paused"]) == (consumer.client_id, "consumer", False)


def test_a_producer_is_shown_after_its_first_message_until_it_is_closed(gateway: GatewayProcess, topic: str) -> None:
    def mine(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [each for each in found if each["topics"] is not None and topic in each["topics"]]

    shown = Shown(gateway)
    with Producer(gateway.url) as producer:
        producer.send(topic, b"x")
        (client,) = mine(shown.wait(lambda found: bool(mine(found))))
        assert (client["kind"], client["group"], client["version"]) == ("producer", None, __version__)
        producer.send(f"{topic}-more", b"x")
        shown.wait(lambda found: f"{topic}-more" in mine(found)[0]["topics"])
    assert mine(shown()) == []


def test_one_that_sends_to_many_topics_names_those_that_came_last(gateway: GatewayProcess, topic: str) -> None:
    async def test() -> None:
        async with aio.Producer(gateway.url) as producer:
            for number in range(heartbeats.TOPICS_MAX + 3):
                await producer.send(f"{topic}-{number}", b"x")
            last = f"{topic}-{heartbeats.TOPICS_MAX + 2}"
            found = await asyncio.to_thread(
                Shown(gateway).wait, lambda found: any(last in (each["topics"] or ()) for each in found)
            )
            (client,) = [each for each in found if last in (each["topics"] or ())]
            assert len(client["topics"]) == heartbeats.TOPICS_MAX
            assert f"{topic}-0" not in client["topics"]

    asyncio.run(test())


def test_a_transaction_producer_is_one_of_its_group(gateway: GatewayProcess, topic: str, group: str) -> None:
    class Commits:
        """Commits all."""

        def execute_local_transaction(self, message: Any, transaction_id: str, argument: Any) -> Any:
            return None

        def check_local_transaction(self, message: Any) -> Any:
            return None

    shown = Shown(gateway, producer_group=group)
    with TransactionProducer(group, Commits(), brokers=gateway.url) as producer:
        producer.send(topic, b"x")
        (client,) = shown.wait(lambda found: bool(found))
        assert (client["group"], client["topics"]) == (group, [topic])
    assert shown() == []


def test_a_broker_that_does_not_take_it_gets_messages_all_the_same(
    gateway: GatewayProcess, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with httpx.Client(base_url=gateway.url, trust_env=False, timeout=60) as http, Producer(gateway.url) as producer:
        producer._core.heartbeats.client_id = "x" * 300  # pyright: ignore[reportPrivateUsage]
        with caplog.at_level("DEBUG", "lakemq.client.produce.heartbeats"):
            producer.send(topic, b"x")
            wait_until(lambda: "could not send broker" in caplog.text)
        producer.send(topic, b"y")
        assert "x" * 300 not in json.dumps(http.get("/v1/clients").json())
    assert not [each for each in caplog.records if each.levelname in ("WARNING", "ERROR")]
