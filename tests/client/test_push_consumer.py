"""Push consumers against a real gateway."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from lakemq.client import (
    Closed,
    ConsumeLater,
    ConsumeResult,
    Limits,
    MessageView,
    Producer,
    PushConsumer,
    Unreachable,
    aio,
)
from lakemq.client.consume import held_queue, push_engine
from lakemq.model.errors import GroupModelDiffers, InvalidFilter, InvalidRequest, InvalidTopic
from lakemq.testing import GatewayProcess, start_gateway
from tests.client.consuming import WAIT_S_MAX, Seen, make_topic, numbered, offsets, put, view, wait_until
from tests.client.producing import DEAD, stored


def test_each_message_comes_once_and_its_offset_is_committed(gateway: GatewayProcess, topic: str, group: str) -> None:
    texts = numbered(3000)
    put(gateway.url, topic, texts)
    seen = Seen()
    with PushConsumer(group, seen.add, brokers=gateway.url, consume_from="first") as consumer:
        consumer.subscribe(topic)
        seen.wait(texts)
        assert {queue.queue_id for queue in consumer.queues if queue.topic == topic} == {0, 1, 2, 3}
    assert Counter(seen.texts) == Counter(texts)
    assert offsets(gateway.url, group, topic) == dict.fromkeys(range(4), 750)
    assert view(gateway.url, group)["members"] == []


def test_who_comes_back_goes_on_where_it_ended(gateway: GatewayProcess, topic: str, group: str) -> None:
    first, second = Seen(), Seen()
    put(gateway.url, topic, numbered(10, "a"))
    with PushConsumer(group, first.add, brokers=gateway.url, consume_from="first") as consumer:
        consumer.subscribe(topic)
        first.wait(numbered(10, "a"))
    put(gateway.url, topic, numbered(10, "b"))
    with PushConsumer(group, second.add, brokers=gateway.url, consume_from="first") as consumer:
        consumer.subscribe(topic)
        second.wait(numbered(10, "b"))
    assert sorted(second.texts) == numbered(10, "b")


def test_a_new_group_begins_with_what_comes_from_now_on(gateway: GatewayProcess, topic: str, group: str) -> None:
    put(gateway.url, topic, ["old"])
    seen = Seen()
    with PushConsumer(group, seen.add, brokers=gateway.url) as consumer:
        consumer.subscribe(topic)
        wait_until(lambda: len(offsets(gateway.url, group, topic)) == 4)
        put(gateway.url, topic, numbered(8, "new"))
        seen.wait(numbered(8, "new"))
    assert "old" not in seen.texts


def test_a_new_group_begins_at_a_time(gateway: GatewayProcess, topic: str, group: str) -> None:
    put(gateway.url, topic, ["before"])
    time.sleep(0.01)
    begin = datetime.fromtimestamp(stored(gateway.url, topic)[0].store_time_ms / 1000 + 0.005, UTC)
    put(gateway.url, topic, ["after"])
    seen = Seen()
    with PushConsumer(group, seen.add, brokers=gateway.url, consume_from=begin) as consumer:
        consumer.subscribe(topic)
        seen.wait(["after"])
    assert seen.texts == ["after"]


def test_a_topic_that_is_made_later_is_consumed_from_its_first_message(
    gateway: GatewayProcess, topic: str, group: str
) -> None:
    seen = Seen()
    with PushConsumer(group, seen.add, brokers=gateway.url, consume_from="first") as consumer:
        consumer.subscribe(topic)
        put(gateway.url, topic, numbered(20))
        seen.wait(numbered(20))


def test_queues_that_are_added_are_consumed_from_their_first_message(
    gateway: GatewayProcess, topic: str, group: str
) -> None:
    make_topic(gateway.url, topic, 1)
    seen = Seen()
    with PushConsumer(group, seen.add, brokers=gateway.url) as consumer:
        consumer.subscribe(topic)
        wait_until(lambda: offsets(gateway.url, group, topic) == {0: 0})
        make_topic(gateway.url, topic, 3)
        put(gateway.url, topic, numbered(30))
        seen.wait(numbered(30))


def test_only_what_is_subscribed_to_comes(gateway: GatewayProcess, topic: str, group: str) -> None:
    for tag in "ABC":
        put(gateway.url, topic, numbered(10, tag), tag=tag, properties={"price": str(ord(tag))})
    by_tag, by_sql = Seen(), Seen()
    with PushConsumer(group, by_tag.add, brokers=gateway.url, consume_from="first") as consumer:
        consumer.subscribe(topic, tags="A || C")
        by_tag.wait([*numbered(10, "A"), *numbered(10, "C")])
    assert len(by_tag.texts) == 20
    with PushConsumer(f"{group}-sql", by_sql.add, brokers=gateway.url, consume_from="first") as consumer:
        consumer.subscribe(topic, sql="price BETWEEN 66 AND 100")
        by_sql.wait([*numbered(10, "B"), *numbered(10, "C")])
    assert len(by_sql.texts) == 20


def test_what_a_filter_leaves_out_is_consumed(gateway: GatewayProcess, topic: str, group: str) -> None:
    by_one, by_list = Seen(), list[bytes]()

    def keep(message: MessageView) -> bool:
        return message.body != b"skip"

    async def listen(messages: list[MessageView]) -> None:
        by_list.extend(message.body for message in messages)

    async def consume() -> None:
        there = aio.PushConsumer(
            f"{group}-there", batch_listener=listen, brokers=gateway.url, consume_from="first", filter=keep
        )
        async with there:
            await there.subscribe(topic)
            await asyncio.to_thread(wait_until, lambda: len(by_list) == 2)

    put(gateway.url, topic, ["one", "skip", "two"], queue_id=0)
    with PushConsumer(group, by_one.add, brokers=gateway.url, consume_from="first", filter=keep) as consumer:
        consumer.subscribe(topic)
        by_one.wait(["one", "two"])
    asyncio.run(consume())
    assert (sorted(by_one.texts), by_list) == (["one", "two"], [b"one", b"two"])
    assert offsets(gateway.url, group, topic)[0] == 3


def test_what_the_broker_passes_over_is_committed_within_the_long_poll(
    gateway: GatewayProcess, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: a consumer that only met expired or filtered messages kept its lag, if it was closed in its poll."""
    monkeypatch.setattr(held_queue, "PULL_WAIT_S", WAIT_S_MAX)
    monkeypatch.setattr(push_engine, "COMMIT_S", 0.2)
    there = f"{group}-there"

    def is_committed() -> bool:
        return offsets(gateway.url, group, topic)[0] == offsets(gateway.url, there, topic)[0] == 2

    async def listen(message: MessageView) -> None:
        raise AssertionError(message)

    async def consume() -> None:
        async with aio.PushConsumer(there, listen, brokers=gateway.url, consume_from="first") as consumer:
            await consumer.subscribe(topic, "A")
            await asyncio.to_thread(wait_until, lambda: len(offsets(gateway.url, there, topic)) == 4)
            await asyncio.to_thread(wait_until, is_committed)

    put(gateway.url, topic, ["one", "two"], tag="B", queue_id=0)
    with PushConsumer(group, Seen().add, brokers=gateway.url, consume_from="first") as consumer:
        consumer.subscribe(topic, "A")
        wait_until(lambda: len(offsets(gateway.url, group, topic)) == 4)
        asyncio.run(consume())


def test_a_member_of_another_model_than_the_others_is_refused(
    gateway: GatewayProcess, topic: str, group: str, tmp_path: Path
) -> None:
    make_topic(gateway.url, topic, 1)
    with PushConsumer(group, Seen().add, brokers=gateway.url) as consumer:
        consumer.subscribe(topic)
        options: dict[str, Any] = {"brokers": gateway.url, "model": "broadcasting", "offset_file": tmp_path / "offsets"}
        other = PushConsumer(group, Seen().add, **options)
        other.subscribe(topic)
        with pytest.raises(GroupModelDiffers, match=consumer.client_id):
            other.start()


def test_a_bad_filter_is_refused_with_its_place(gateway: GatewayProcess, topic: str, group: str) -> None:
    consumer = PushConsumer(group, Seen().add, brokers=gateway.url)
    consumer.subscribe(topic, sql="price >< 3")
    with pytest.raises(InvalidFilter, match="character"):
        consumer.start()
    with pytest.raises(Closed):
        consumer.subscribe(topic)
    with PushConsumer(group, Seen().add, brokers=gateway.url) as consumer:
        consumer.subscribe(topic)
        with pytest.raises(InvalidFilter, match="character"):
            consumer.subscribe(topic, sql="price >< 3")


def stored_topic(url: str, topic: str) -> bool:
    return httpx.get(f"{url}/v1/topics/{topic}", trust_env=False, timeout=WAIT_S_MAX).is_success


def test_a_message_that_fails_comes_again_and_then_goes_to_the_dead_letters(
    brisk: GatewayProcess, topic: str, group: str
) -> None:
    attempts: list[tuple[str, int, str]] = []

    def listener(message: MessageView) -> ConsumeResult:
        attempts.append((message.text(), message.reconsume_times, message.topic))
        if message.text() == "raises":
            raise RuntimeError("no")
        if message.text() == "dead at once":
            raise ConsumeLater(-1)
        return ConsumeResult.LATER if message.text() == "later" else ConsumeResult.SUCCESS

    put(brisk.url, topic, ["raises", "later", "dead at once", "good"])
    options: dict[str, Any] = {"brokers": brisk.url, "consume_from": "first", "max_reconsume_times": 2}
    with PushConsumer(group, listener, **options) as consumer:
        consumer.subscribe(topic)
        dead = f"%DLQ%{group}"
        wait_until(lambda: stored_topic(brisk.url, dead) and len(stored(brisk.url, dead)) == 3)
    for text in ("raises", "later"):
        assert [times for each, times, _ in attempts if each == text] == [0, 1, 2]
    assert {each for *_, each in attempts} == {topic}, "a retry is of the topic that it was sent to"
    assert [each for each, *_ in attempts].count("dead at once") == 1
    assert [each for each, *_ in attempts].count("good") == 1
    assert sorted(message.body for message in stored(brisk.url, dead)) == [b"dead at once", b"later", b"raises"]


def test_a_batch_listener_has_many_at_once_and_fails_with_all(brisk: GatewayProcess, topic: str, group: str) -> None:
    make_topic(brisk.url, topic, 1)
    put(brisk.url, topic, numbered(100))
    sizes: list[int] = []
    seen = Seen()

    def listener(messages: list[MessageView]) -> None:
        sizes.append(len(messages))
        if any(message.text() == "m0" and not message.reconsume_times for message in messages):
            raise ConsumeLater
        for message in messages:
            seen.add(message)

    options: dict[str, Any] = {"brokers": brisk.url, "consume_from": "first", "batch_size": 10}
    with PushConsumer(group, batch_listener=listener, **options) as consumer:
        consumer.subscribe(topic)
        seen.wait(numbered(100))
    assert Counter(seen.texts) == Counter(numbered(100))
    assert max(sizes) == 10


def test_slow_listeners_run_side_by_side(gateway: GatewayProcess, topic: str, group: str) -> None:
    put(gateway.url, topic, numbered(8))
    all_there, seen = threading.Barrier(8), Seen()

    def listener(message: MessageView) -> None:
        all_there.wait(60)
        seen.add(message)

    with PushConsumer(group, listener, brokers=gateway.url, consume_from="first", concurrency=8) as consumer:
        consumer.subscribe(topic)
        seen.wait(numbered(8))
    assert len(seen.texts) == 8


def test_no_more_is_held_than_the_limits_say(tmp_path: Path, topic: str, group: str) -> None:
    with start_gateway(tmp_path / "data") as gateway:
        _hold_as_much_as_may_be(gateway, topic, group)


def _hold_as_much_as_may_be(gateway: GatewayProcess, topic: str, group: str) -> None:
    make_topic(gateway.url, topic, 1)
    put(gateway.url, topic, numbered(500))
    gate, seen, begun = threading.Event(), Seen(), threading.Event()

    def listener(message: MessageView) -> None:
        begun.set()
        gate.wait(60)
        seen.add(message)

    limits = Limits(messages=40)
    with PushConsumer(group, listener, brokers=gateway.url, consume_from="first", limits=limits) as consumer:
        consumer.subscribe(topic)
        assert begun.wait(60)
        wait_until(lambda: messages_out(gateway.url) >= 40)
        time.sleep(0.2)
        assert messages_out(gateway.url) == 40
        gate.set()
        seen.wait(numbered(500))


def messages_out(url: str) -> float:
    text = httpx.get(f"{url}/metrics", trust_env=False, timeout=WAIT_S_MAX).text
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith("lakemq_messages_out"))


def test_the_listener_of_the_asyncio_face_is_awaited(gateway: GatewayProcess, topic: str, group: str) -> None:
    put(gateway.url, topic, numbered(200))
    seen, batches = Seen(), Seen()

    async def listener(message: MessageView) -> None:
        await asyncio.sleep(0)
        seen.add(message)

    async def batch_listener(messages: list[MessageView]) -> ConsumeResult:
        for message in messages:
            batches.add(message)
        return ConsumeResult.SUCCESS

    async def run() -> None:
        options: dict[str, Any] = {"brokers": gateway.url, "consume_from": "first"}
        async with (
            aio.PushConsumer(group, listener, **options) as one,
            aio.PushConsumer(f"{group}-batch", batch_listener=batch_listener, **options) as many,
        ):
            await one.subscribe(topic)
            await many.subscribe(topic)
            await asyncio.to_thread(seen.wait, numbered(200))
            await asyncio.to_thread(batches.wait, numbered(200))
            await one.unsubscribe(topic)

    asyncio.run(asyncio.wait_for(run(), 60))
    assert Counter(seen.texts) == Counter(batches.texts) == Counter(numbered(200))


def test_broadcasting_gives_all_to_each_and_keeps_its_offsets_in_a_file_of_each(
    gateway: GatewayProcess,
    topic: str,
    group: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    put(gateway.url, topic, numbered(50))
    one, two, again = Seen(), Seen(), Seen()

    def listener(message: MessageView) -> None:
        two.add(message)
        raise RuntimeError("broadcasting retries none")

    options: dict[str, Any] = {"brokers": gateway.url, "model": "broadcasting", "consume_from": "first"}
    with (
        PushConsumer(group, one.add, **options) as first,
        PushConsumer(group, listener, **options) as second,
    ):
        first.subscribe(topic)
        second.subscribe(topic)
        one.wait(numbered(50))
        two.wait(numbered(50))
    assert Counter(one.texts) == Counter(two.texts) == Counter(numbered(50))
    assert "broadcasting retries none" in caplog.text
    put(gateway.url, topic, ["more"])
    with PushConsumer(group, again.add, **options) as first:
        first.subscribe(topic)
        again.wait(["more"])
    assert again.texts == ["more"]
    assert offsets(gateway.url, group, topic) == {}


def test_a_reset_is_followed_by_who_is_consuming(gateway: GatewayProcess, topic: str, group: str) -> None:
    put(gateway.url, topic, numbered(20))
    seen = Seen()
    with PushConsumer(group, seen.add, brokers=gateway.url, consume_from="first") as consumer:
        consumer.subscribe(topic)
        seen.wait(numbered(20))
        path = f"{gateway.url}/v1/groups/{group}/offsets/reset"
        assert httpx.post(path, json={"topic": topic, "to": "earliest"}, trust_env=False, timeout=WAIT_S_MAX).is_success
        wait_until(lambda: Counter(seen.texts) == Counter(numbered(20) * 2))
    assert offsets(gateway.url, group, topic) == dict.fromkeys(range(4), 5)


def test_members_that_subscribe_differently_are_warned(
    brisk: GatewayProcess, topic: str, group: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakemq.client.consume.membership.DIFFERENT_S", 0.0)
    caplog.set_level(logging.WARNING, "lakemq.client")
    make_topic(brisk.url, topic)
    with (
        PushConsumer(group, Seen().add, brokers=brisk.url) as one,
        PushConsumer(group, Seen().add, brokers=brisk.url) as two,
    ):
        one.subscribe(topic, tags="A")
        two.subscribe(topic, tags="B")
        wait_until(lambda: "have different subscriptions" in caplog.text)
    assert view(brisk.url, group)["subscriptions_differ"] is False


def test_what_cannot_be_is_refused(gateway: GatewayProcess, topic: str, group: str) -> None:
    with pytest.raises(InvalidRequest, match="listener"):
        PushConsumer(group)
    with pytest.raises(InvalidRequest, match="listener"):
        aio.PushConsumer(group)
    with pytest.raises(InvalidRequest, match="model"):
        PushConsumer(group, Seen().add, model="other")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidRequest, match="consume_from"):
        PushConsumer(group, Seen().add, consume_from="middle")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InvalidRequest, match="time zone"):
        PushConsumer(group, Seen().add, consume_from=datetime(2026, 1, 1))  # noqa: DTZ001
    with pytest.raises(InvalidRequest, match="at least 1"):
        PushConsumer(group, Seen().add, concurrency=0)
    with pytest.raises(ValueError, match="no strategy"):
        PushConsumer(group, Seen().add, strategy="fair")
    with pytest.raises(InvalidRequest, match="group"):
        PushConsumer("a group", Seen().add)
    with PushConsumer(group, Seen().add, brokers=gateway.url) as consumer:
        with pytest.raises(InvalidTopic):
            consumer.subscribe("no topic!")
        with pytest.raises(InvalidRequest, match="not by both"):
            consumer.subscribe(topic, tags="A", sql="a = 1")
    with pytest.raises(Closed):
        consumer.start()
    with pytest.raises(Unreachable):
        PushConsumer(group, Seen().add, brokers=DEAD).start()


def test_what_is_sent_after_subscribing_comes_whatever_the_consumer_begins_with(
    gateway: GatewayProcess, topic: str, group: str
) -> None:
    put(gateway.url, topic, ["old"])
    seen, later = Seen(), f"{topic}-later"
    with PushConsumer(group, seen.add, brokers=gateway.url) as consumer:
        consumer.subscribe(topic)
        put(gateway.url, topic, numbered(4, "at once"))
        consumer.subscribe(later)
        put(gateway.url, later, numbered(4, "made later"))
        seen.wait([*numbered(4, "at once"), *numbered(4, "made later")])
    assert "old" not in seen.texts


def test_another_filter_counts_from_the_subscription_on(gateway: GatewayProcess, topic: str, group: str) -> None:
    seen = Seen()
    put(gateway.url, topic, ["A0"], tag="A")
    with PushConsumer(group, seen.add, brokers=gateway.url, consume_from="first") as consumer:
        consumer.subscribe(topic, tags="A")
        seen.wait(["A0"])
        consumer.subscribe(topic, tags="B")
        assert view_expression(gateway.url, group, topic) == "B"
        for number in range(4):
            put(gateway.url, topic, [f"A{number + 1}"], tag="A")
            put(gateway.url, topic, [f"B{number}"], tag="B")
        seen.wait(numbered(4, "B"))
    assert sorted(seen.texts) == ["A0", *numbered(4, "B")]


def view_expression(url: str, group: str, topic: str) -> str:
    subscriptions: Any = view(url, group)["subscriptions"]
    return next(each["expression"] for each in subscriptions if each["topic"] == topic)


def test_a_listener_that_exits_fails_on_its_message_only(brisk: GatewayProcess, topic: str, group: str) -> None:
    put(brisk.url, topic, ["exit", "good"])
    seen = Seen()

    def listener(message: MessageView) -> None:
        if message.text() == "exit" and not message.reconsume_times:
            raise SystemExit(3)
        seen.add(message)

    with PushConsumer(group, listener, brokers=brisk.url, consume_from="first") as consumer:
        consumer.subscribe(topic)
        seen.wait(["exit", "good"])


def test_each_call_of_a_listener_is_a_span_below_the_one_that_sent(
    brisk: GatewayProcess, topic: str, group: str
) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    seen, batches = Seen(), list[int]()

    def listener(message: MessageView) -> None:
        seen.add(message)
        if not message.reconsume_times:
            raise RuntimeError("no")

    with Producer(brisk.url, tracing=provider) as producer:
        producer.send(topic, "m")
    options: dict[str, Any] = {"brokers": brisk.url, "consume_from": "first", "tracing": provider}
    with PushConsumer(group, listener, **options) as consumer:
        consumer.subscribe(topic)
        wait_until(lambda: len(seen.texts) == 2)
    with PushConsumer(
        f"{group}-batch", batch_listener=lambda messages: batches.append(len(messages)), **options
    ) as consumer:
        consumer.subscribe(topic)
        wait_until(lambda: batches == [1])
    [sent, failed, again, batch] = exporter.get_finished_spans()
    assert [span.name for span in (sent, failed, again, batch)] == [f"send {topic}", *[f"process {topic}"] * 3]
    sender = sent.get_span_context()
    assert sender is not None
    for span in (failed, again, batch):
        assert span.parent is not None
        assert (span.parent.trace_id, span.parent.span_id) == (sender.trace_id, sender.span_id)
    assert [span.status.is_ok for span in (failed, again)] == [False, True]
