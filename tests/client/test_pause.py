"""Push consumers that are paused, against a real gateway."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from lakemq.client import Closed, ConsumeResult, Limits, MessageQueue, MessageView, PullConsumer, PushConsumer, aio
from lakemq.client.consume import membership
from lakemq.client.consume.pauses import Pauses
from lakemq.client.http import HttpClient
from lakemq.model.errors import ClientNotFound, ConsumeDisabled, InvalidRequest, InvalidTopic
from lakemq.testing import GatewayProcess
from tests.client.consuming import WAIT_S_MAX, Seen, make_topic, numbered, offsets, put, view, wait_until


def buffered(consumer: PushConsumer | aio.PushConsumer) -> int:
    """How many messages it holds that no listener was given."""
    engine: Any = consumer._engine  # pyright: ignore[reportPrivateUsage]
    return sum(each.process.waiting for each in engine._held.values() if each.process is not None)


def is_busy(consumer: PushConsumer) -> bool:
    """Whether a call of its listener is under way."""
    engine: Any = consumer._engine  # pyright: ignore[reportPrivateUsage]
    return bool(engine._workers._running)


def test_while_paused_nothing_is_given_to_the_listener_and_all_comes_once_afterwards(
    gateway: GatewayProcess, topic: str, group: str
) -> None:
    seen = Seen()
    with PushConsumer(group, seen.add, brokers=gateway.url, consume_from="first") as consumer:
        consumer.subscribe(topic)
        put(gateway.url, topic, numbered(20, "a"))
        seen.wait(numbered(20, "a"))
        assert not consumer.paused
        consumer.pause()
        assert consumer.paused
        put(gateway.url, topic, numbered(20, "b"))
        # The polls that were under way bring what they find: it is held, and not given.
        wait_until(lambda: buffered(consumer) > 0)
        put(gateway.url, topic, numbered(20, "c"))
        assert len(seen.texts) == 20
        consumer.resume()
        seen.wait([*numbered(20, "b"), *numbered(20, "c")])
    assert len(seen.texts) == 60
    assert offsets(gateway.url, group, topic) == dict.fromkeys(range(4), 15)


def test_a_call_under_way_ends_and_the_next_message_of_its_work_waits(
    gateway: GatewayProcess, topic: str, group: str
) -> None:
    make_topic(gateway.url, topic, 1)
    put(gateway.url, topic, numbered(500))
    seen, within, go_on = Seen(), threading.Event(), threading.Event()

    def listen(message: MessageView) -> None:
        seen.add(message)
        if len(seen.texts) == 300:  # by now the messages are taken by the hundred
            within.set()
            assert go_on.wait(WAIT_S_MAX)

    with PushConsumer(group, listen, brokers=gateway.url, consume_from="first", concurrency=1) as consumer:
        consumer.subscribe(topic)
        assert within.wait(WAIT_S_MAX)
        consumer.pause()
        go_on.set()
        wait_until(lambda: not is_busy(consumer))
        assert len(seen.texts) == 300
        consumer.resume(topic)  # it was not paused by that name
        assert len(seen.texts) == 300
        consumer.resume()
        seen.wait(numbered(500))
    assert sorted(seen.texts) == sorted(numbered(500))


def test_a_topic_is_paused_and_so_is_one_queue_of_another(gateway: GatewayProcess, topic: str, group: str) -> None:
    seen, other = Seen(), f"{topic}-other"
    for name in (topic, other):
        make_topic(gateway.url, name, 2)
    with PushConsumer(group, seen.add, brokers=gateway.url, consume_from="first") as consumer:
        consumer.subscribe(topic)
        consumer.subscribe(other)
        wait_until(lambda: {queue.topic for queue in consumer.queues} >= {topic, other})
        first = next(queue for queue in consumer.queues if queue.topic == other and queue.queue_id == 0)
        consumer.pause(topic, first)
        assert not consumer.paused
        put(gateway.url, topic, ["paused"], queue_id=0)
        put(gateway.url, other, ["paused too"], queue_id=0)
        put(gateway.url, other, ["not paused"], queue_id=1)
        seen.wait(["not paused"])
        assert seen.texts == ["not paused"]
        consumer.resume(first)
        seen.wait(["paused too"])
        assert "paused" not in seen.texts
        consumer.resume(topic)
        seen.wait(["paused"])


def test_a_paused_member_keeps_its_queues_and_holds_no_more_than_its_limits(
    gateway: GatewayProcess, topic: str, group: str
) -> None:
    make_topic(gateway.url, topic, 1)
    seen, limits = Seen(), Limits(messages=10)
    with PushConsumer(group, seen.add, brokers=gateway.url, consume_from="first", limits=limits) as consumer:
        consumer.pause()  # before anything is subscribed to: what comes later is paused, too
        consumer.subscribe(topic)
        wait_until(lambda: any(queue.topic == topic for queue in consumer.queues))
        with PushConsumer(group, seen.add, brokers=gateway.url, client_id="zzz") as second:
            second.subscribe(topic)
            wait_until(lambda: len(view(gateway.url, group)["members"]) == 2)  # pyright: ignore[reportArgumentType]
            put(gateway.url, topic, numbered(50))
            assert any(queue.topic == topic for queue in consumer.queues)
            assert buffered(consumer) <= 10
        assert seen.texts == []
        consumer.resume()
        seen.wait(numbered(50))


def test_an_orderly_consumer_is_paused_in_place(gateway: GatewayProcess, topic: str, group: str) -> None:
    make_topic(gateway.url, topic, 1)
    seen, tried = Seen(), threading.Event()

    def listen(message: MessageView) -> ConsumeResult | None:
        if not tried.is_set():
            tried.set()
            return ConsumeResult.SUSPEND
        seen.add(message)
        return None

    options = {"brokers": gateway.url, "orderly": True, "suspend_s": 0.01}
    with PushConsumer(group, listen, consume_from="first", **options) as consumer:  # pyright: ignore[reportArgumentType]
        consumer.subscribe(topic)
        put(gateway.url, topic, ["first"])
        assert tried.wait(WAIT_S_MAX)
        consumer.pause()
        put(gateway.url, topic, numbered(20), queue_id=0)
        consumer.resume()
        seen.wait(numbered(20))
    assert [text for text in seen.texts if text != "first"] == numbered(20)


def test_with_asyncio_too(gateway: GatewayProcess, topic: str, group: str) -> None:
    asyncio.run(_with_asyncio(gateway, topic, group))


async def _with_asyncio(gateway: GatewayProcess, topic: str, group: str) -> None:
    seen: list[str] = []

    async def listen(message: MessageView) -> None:
        seen.append(message.text())

    async def until(count: int) -> None:
        await asyncio.to_thread(wait_until, lambda: len(seen) >= count)

    async with aio.PushConsumer(group, listen, brokers=gateway.url, consume_from="first") as consumer:
        await consumer.subscribe(topic)
        await asyncio.to_thread(put, gateway.url, topic, numbered(10))
        await until(10)
        await consumer.pause()
        assert consumer.paused
        await asyncio.to_thread(put, gateway.url, topic, numbered(10, "later"))
        await asyncio.to_thread(wait_until, lambda: buffered(consumer) > 0)
        assert len(seen) == 10
        await consumer.resume()
        await until(20)
    with pytest.raises(Closed):
        await consumer.pause()


def test_what_is_no_queue_and_no_topic_is_refused_and_nothing_changes() -> None:
    pauses = Pauses()
    with pytest.raises(InvalidRequest):
        pauses.pause(("orders", 7))  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidTopic):
        pauses.pause(("orders", "no topic!"))
    assert not pauses
    assert not pauses.holds(MessageQueue("orders", "a", 0))


def test_what_the_operator_and_the_program_paused_ends_by_each_alone() -> None:
    pauses, here, there = Pauses(), MessageQueue("orders", "a", 0), MessageQueue("orders", "b", 0)
    assert pauses.follow("a", enabled=True) is False
    assert pauses.follow("a", enabled=False)
    assert pauses.holds(here)
    assert not pauses.holds(there)
    pauses.resume(())
    assert pauses.holds(here)
    pauses.pause((here,))
    assert pauses.follow("a", enabled=True)
    assert pauses.holds(here)
    pauses.resume((here,))
    assert not pauses


def test_one_client_that_an_operator_pauses_is_given_nothing_and_others_go_on(
    gateway: GatewayProcess, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "HEARTBEAT_S", 0.5)  # by which a client says that it is paused
    mine, others = Seen(), Seen()
    with (
        HttpClient(gateway.url) as http,
        PushConsumer(group, mine.add, brokers=gateway.url, consume_from="first") as first,
        PushConsumer(group, others.add, brokers=gateway.url, consume_from="first") as second,
        PullConsumer(group, brokers=gateway.url, consume_from="first") as pulling,
    ):
        make_topic(gateway.url, topic, 4)
        first.subscribe(topic)
        second.subscribe(topic)
        wait_until(lambda: len(first.queues) == len(second.queues) == 2)
        held = first.queues
        http.enable_client(group, first.client_id, False)
        wait_until(lambda: {each["client_id"]: each["paused"] for each in http.clients(group)}[first.client_id])
        put(gateway.url, topic, numbered(40))
        wait_until(lambda: len(others.texts) == 20)
        first.resume()  # that is the operator's to say
        assert (mine.texts, first.queues) == ([], held), "it keeps its queues, and what it has"
        http.enable_client(group, first.client_id, True)
        wait_until(lambda: len(mine.texts) + len(others.texts) == 40)
        assert mine.texts
        pulling.subscribe(topic)
        pulling.poll(wait_s=0)
        http.enable_client(group, pulling.client_id, False)
        wait_until(lambda: {each["client_id"]: each["paused"] for each in http.clients(group)}[pulling.client_id])
        with pytest.raises(ConsumeDisabled):
            pulling.poll(wait_s=WAIT_S_MAX)
        with pytest.raises(ClientNotFound):
            http.enable_client(group, "nobody", False)


def test_a_group_that_an_operator_pauses_is_given_nothing_and_goes_on_when_it_is_resumed(
    gateway: GatewayProcess, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen = Seen()
    with (
        HttpClient(gateway.url) as http,
        caplog.at_level(logging.WARNING, "lakemq.client"),
        PushConsumer(group, seen.add, brokers=gateway.url, consume_from="first") as consumer,
    ):
        consumer.subscribe(topic)
        put(gateway.url, topic, numbered(8))
        seen.wait(numbered(8))
        http.enable_group(group, False)
        wait_until(lambda: "consumes nothing now" in caplog.text)
        put(gateway.url, topic, numbered(8, "later"))
        consumer.resume()  # that is the operator's to say
        queues = consumer.queues
        with (
            PushConsumer(group, seen.add, brokers=gateway.url) as second,
            PullConsumer(group, brokers=gateway.url) as pulling,
        ):
            second.subscribe(topic)
            wait_until(lambda: len(consumer.queues) < len(queues))
            pulling.assign(pulling.queues_of(topic))
            with pytest.raises(ConsumeDisabled):
                pulling.poll(wait_s=WAIT_S_MAX)
        assert len(seen.texts) == 8
        wait_until(lambda: consumer.queues == queues)
        http.enable_group(group, True)
        seen.wait(numbered(8, "later"))
        wait_until(lambda: "consumes again" in caplog.text)
    assert len(seen.texts) == 16
    assert "can't pull from" not in caplog.text
