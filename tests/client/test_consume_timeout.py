"""Listeners that take longer than they may, against a real gateway."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from lakemq.client import ConsumeLater, MessageView, PushConsumer, aio
from lakemq.client.consume.overdue import Overdue, Running
from lakemq.model.errors import InvalidRequest
from lakemq.testing import GatewayProcess
from tests.client.consuming import WAIT_S_MAX, Seen, is_there, make_topic, numbered, offsets, put, wait_until

TIMEOUT_S = 1.0
STEP_S_MAX = TIMEOUT_S / 4
"""Between two looks at a call there pass no more seconds than these, by its clock."""


@pytest.fixture(autouse=True)
def standing_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was called before this process stood still has taken no longer by that: else it would come again."""
    look = Overdue._look  # pyright: ignore[reportPrivateUsage]
    seen_s: dict[Running, float] = {}

    def look_by_steps(watch: Overdue, running: Running, now_s: float, timeout_s: float) -> None:
        stood_still_s = now_s - seen_s.get(running, running.since_s) - STEP_S_MAX
        running.since_s += max(stood_still_s, 0.0)
        seen_s[running] = now_s
        look(watch, running, now_s, timeout_s)

    monkeypatch.setattr(Overdue, "_look", look_by_steps)


class Hangs(Seen):
    """A listener that hangs the first time that it gets certain messages, until it is let go."""

    def __init__(self, *texts: str) -> None:
        super().__init__()
        self.texts_left = set(texts)
        self.hung: list[str] = []
        self.go_on = threading.Event()

    def listen(self, message: MessageView) -> None:
        """See it, or hang."""
        text = message.text()
        if text in self.texts_left:
            self.texts_left.discard(text)
            self.hung.append(text)
            assert self.go_on.wait(WAIT_S_MAX)
            return
        self.add(message)


def test_a_message_that_hangs_comes_again_and_holds_up_no_offset(
    brisk: GatewayProcess, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    make_topic(brisk.url, topic, 1)
    put(brisk.url, topic, numbered(50))
    hangs = Hangs("m10")
    with PushConsumer(
        group, hangs.listen, brokers=brisk.url, consume_from="first", consume_timeout_s=TIMEOUT_S
    ) as consumer:
        consumer.subscribe(topic)
        hangs.wait(numbered(50))
        again = next(message for message in hangs.messages if message.text() == "m10")
        assert again.reconsume_times == 1
        assert again.stored_topic == f"%RETRY%{group}"
        assert (again.failure_class, again.failure_text) == (
            "lakemq.TimeOut",
            "the listener has had it for more than 1 s",
        )
        with caplog.at_level(logging.WARNING, "lakemq.client"):
            hangs.go_on.set()
            wait_until(lambda: "returned too late" in caplog.text)
    assert hangs.hung == ["m10"]
    assert offsets(brisk.url, group, topic) == {0: 50}
    assert sorted(hangs.texts) == sorted(numbered(50))


def test_what_failed_before_it_and_what_comes_after_it_is_kept(brisk: GatewayProcess, topic: str, group: str) -> None:
    make_topic(brisk.url, topic, 1)
    put(brisk.url, topic, numbered(600))
    hangs = Hangs("m400")

    def listen(message: MessageView) -> None:
        if message.text() in ("m398", "m399") and not message.reconsume_times:
            raise ConsumeLater(reason="not now")
        hangs.listen(message)

    # One worker takes them by the hundred; the other one goes on while that is stuck.
    with PushConsumer(
        group, listen, brokers=brisk.url, consume_from="first", consume_timeout_s=TIMEOUT_S, concurrency=2
    ) as consumer:
        consumer.subscribe(topic)
        hangs.wait(numbered(600))
        hangs.go_on.set()
    assert offsets(brisk.url, group, topic) == {0: 600}
    again = {each.text(): each.failure_text for each in hangs.messages if each.reconsume_times}
    assert again.keys() >= {"m398", "m399", "m400"}
    assert again["m398"] == again["m399"] == "not now"


def test_when_all_threads_are_stuck_it_says_so_and_takes_no_more_until_one_returns(
    brisk: GatewayProcess, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    make_topic(brisk.url, topic, 1)
    hangs = Hangs("m0", "m1")
    with PushConsumer(
        group, hangs.listen, brokers=brisk.url, consume_from="first", consume_timeout_s=TIMEOUT_S, concurrency=2
    ) as consumer:
        consumer.subscribe(topic)
        with caplog.at_level(logging.ERROR, "lakemq.client"):
            put(brisk.url, topic, numbered(2))
            wait_until(lambda: "nothing is consumed until one of them returns" in caplog.text)
        put(brisk.url, topic, numbered(20, "more"))
        wait_until(lambda: _waiting(consumer) >= 20)
        assert hangs.texts == []
        hangs.go_on.set()
        hangs.wait([*numbered(2), *numbered(20, "more")])


def test_a_consumer_closes_though_a_thread_is_stuck(brisk: GatewayProcess, topic: str, group: str) -> None:
    make_topic(brisk.url, topic, 1)
    put(brisk.url, topic, ["hangs"], queue_id=0)
    hangs = Hangs("hangs")
    consumer = PushConsumer(
        group, hangs.listen, brokers=brisk.url, consume_from="first", consume_timeout_s=TIMEOUT_S, concurrency=1
    )
    consumer.start()
    consumer.subscribe(topic)
    wait_until(lambda: is_there(brisk.url, f"%RETRY%{group}"))  # it was sent back
    consumer.close()
    assert offsets(brisk.url, group, topic) == {0: 1}
    hangs.go_on.set()
    assert hangs.texts == []


def test_a_batch_comes_again_as_a_whole(brisk: GatewayProcess, topic: str, group: str) -> None:
    make_topic(brisk.url, topic, 1)
    put(brisk.url, topic, numbered(8))
    seen, go_on, hung = Seen(), threading.Event(), list[int]()

    def listen(messages: list[MessageView]) -> None:
        if not hung:
            hung.append(len(messages))
            assert go_on.wait(WAIT_S_MAX)
            return
        for message in messages:
            seen.add(message)

    with PushConsumer(
        group, batch_listener=listen, brokers=brisk.url, consume_from="first", consume_timeout_s=TIMEOUT_S
    ) as consumer:
        consumer.subscribe(topic)
        seen.wait(numbered(8))
        go_on.set()
    assert offsets(brisk.url, group, topic) == {0: 8}
    assert hung == [8]


def test_with_asyncio_the_listener_is_cancelled(brisk: GatewayProcess, topic: str, group: str) -> None:
    asyncio.run(_cancelled(brisk, topic, group))


async def _cancelled(brisk: GatewayProcess, topic: str, group: str) -> None:
    await asyncio.to_thread(make_topic, brisk.url, topic, 1)
    await asyncio.to_thread(put, brisk.url, topic, numbered(30))
    seen: list[str] = []
    cancelled: list[str] = []

    async def listen(message: MessageView) -> None:
        if message.text() == "m7" and not message.reconsume_times:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(message.text())
                raise
        seen.append(message.text())

    async with aio.PushConsumer(
        group, listen, brokers=brisk.url, consume_from="first", consume_timeout_s=TIMEOUT_S, concurrency=1
    ) as consumer:
        await consumer.subscribe(topic)
        await asyncio.to_thread(wait_until, lambda: len(seen) >= 30)
    assert cancelled == ["m7"]
    assert sorted(seen) == sorted(numbered(30))
    assert await asyncio.to_thread(offsets, brisk.url, group, topic) == {0: 30}


def test_a_listener_that_takes_no_notice_of_being_cancelled_holds_up_nothing_but_its_place(
    brisk: GatewayProcess, topic: str, group: str
) -> None:
    asyncio.run(_takes_no_notice(brisk, topic, group))


async def _takes_no_notice(brisk: GatewayProcess, topic: str, group: str) -> None:
    await asyncio.to_thread(make_topic, brisk.url, topic, 1)
    await asyncio.to_thread(put, brisk.url, topic, numbered(30))
    seen: list[str] = []
    go_on = asyncio.Event()

    async def listen(message: MessageView) -> None:
        if message.text() == "m7" and not message.reconsume_times:
            while not go_on.is_set():
                try:
                    await go_on.wait()
                except asyncio.CancelledError:
                    continue
            return
        seen.append(message.text())

    async with aio.PushConsumer(
        group, listen, brokers=brisk.url, consume_from="first", consume_timeout_s=TIMEOUT_S, concurrency=2
    ) as consumer:
        await consumer.subscribe(topic)
        await asyncio.to_thread(wait_until, lambda: len(seen) >= 30)
        go_on.set()
    assert sorted(seen) == sorted(numbered(30))


def test_a_time_out_is_more_than_nothing_and_an_orderly_consumer_has_none() -> None:
    for options in ({"consume_timeout_s": 0.0}, {"consume_timeout_s": 5.0, "orderly": True}):
        given: Any = options
        with pytest.raises(InvalidRequest):
            PushConsumer("group", print, brokers="http://127.0.0.1:1", **given)
    assert _timeout(PushConsumer("group", print, brokers="http://127.0.0.1:1")) == 900
    assert _timeout(PushConsumer("group", print, brokers="http://127.0.0.1:1", orderly=True)) is None


def _waiting(consumer: PushConsumer) -> int:
    engine: Any = consumer._engine  # pyright: ignore[reportPrivateUsage]
    return sum(each.process.waiting for each in engine._held.values() if each.process is not None)


def _timeout(consumer: PushConsumer) -> float | None:
    engine: Any = consumer._engine  # pyright: ignore[reportPrivateUsage]
    timeout_s: float | None = engine._how.consume_timeout_s
    return timeout_s
