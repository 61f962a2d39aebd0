"""Push consumers whose listeners, or brokers, do what they should not."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lakemq.client import ConsumeResult, MessageView, PushConsumer, aio
from lakemq.model.errors import InvalidRequest
from lakemq.model.rebalance import Assignment
from lakemq.testing import GatewayProcess, start_gateway
from tests.client.between import between
from tests.client.consumer_process import ConsumerProcess
from tests.client.consuming import WAIT_S_MAX, Seen, make_topic, numbered, offsets, put, view, wait_until


def test_what_a_listener_waits_for_may_be_cancelled(brisk: GatewayProcess, topic: str, group: str) -> None:
    put(brisk.url, topic, numbered(8))
    seen = Seen()

    async def listener(message: MessageView) -> None:
        if not message.reconsume_times:
            waiting = asyncio.get_running_loop().create_future()
            waiting.cancel()
            await waiting
        seen.add(message)

    async def run() -> None:
        options: dict[str, Any] = {"brokers": brisk.url, "consume_from": "first", "concurrency": 2}
        async with aio.PushConsumer(group, listener, **options) as consumer:
            await consumer.subscribe(topic)
            await asyncio.to_thread(seen.wait, numbered(8))

    asyncio.run(run())
    assert Counter(seen.texts) == Counter(numbered(8))


def test_what_is_no_result_is_said_and_comes_again(
    brisk: GatewayProcess, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    put(brisk.url, topic, ["m"])
    seen = Seen()

    def listener(message: MessageView) -> ConsumeResult | None:
        seen.add(message)
        return None if message.reconsume_times else "receipt"  # pyright: ignore[reportReturnType]

    with PushConsumer(group, listener, brokers=brisk.url, consume_from="first") as consumer:
        consumer.subscribe(topic)
        wait_until(lambda: len(seen.texts) == 2)
    assert "no ConsumeResult" in caplog.text


def test_a_listener_may_close_its_consumer(gateway: GatewayProcess, topic: str, group: str) -> None:
    make_topic(gateway.url, topic, 1)
    put(gateway.url, topic, numbered(3))
    seen = Seen()

    def listener(message: MessageView) -> None:
        seen.add(message)
        consumer.close()

    consumer = PushConsumer(group, listener, brokers=gateway.url, consume_from="first", concurrency=1)
    with consumer:
        consumer.subscribe(topic)
        seen.wait(["m0"])
        wait_until(lambda: view(gateway.url, group)["members"] == [])
    count = len(seen.texts)
    assert seen.texts == numbered(count), "more may come until it is closed"
    assert offsets(gateway.url, group, topic) == {0: count}
    put(gateway.url, topic, ["last"])

    async def run() -> None:
        async def async_listener(message: MessageView) -> None:
            seen.add(message)
            await async_consumer.close()

        async_consumer = aio.PushConsumer(group, async_listener, brokers=gateway.url)
        async with async_consumer:
            await async_consumer.subscribe(topic)
            await asyncio.to_thread(seen.wait, [f"m{count}" if count < 3 else "last"])

    asyncio.run(run())
    assert offsets(gateway.url, group, topic) == {0: len(seen.texts)}


def test_close_gives_a_listener_time_but_not_for_ever(
    expiring: GatewayProcess, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakemq.client.consume.push_engine.CLOSE_S", 0.2)
    make_topic(expiring.url, topic, 1)
    put(expiring.url, topic, numbered(2))
    begun, gate, seen = threading.Event(), threading.Event(), Seen()

    def slow(_: MessageView) -> None:
        begun.set()
        gate.wait(WAIT_S_MAX)

    options: dict[str, Any] = {"consume_from": "first", "orderly": True}

    def close(url: str) -> None:
        consumer = PushConsumer(group, slow, brokers=url, **options)
        consumer.subscribe(topic)
        consumer.start()
        assert begun.wait(WAIT_S_MAX)
        consumer.close()

    async def run() -> None:
        async with between(expiring.url) as proxy:
            try:
                await asyncio.to_thread(close, proxy.url)
                given_back = [asked for asked in proxy.heard if asked.method == "DELETE"]
                assert given_back == [], "its lock is not given to another yet"
                with PushConsumer(group, seen.add, brokers=expiring.url, **options) as other:
                    await asyncio.to_thread(other.subscribe, topic)
                    await asyncio.to_thread(seen.wait, numbered(2))
            finally:
                gate.set()

    asyncio.run(run())
    assert offsets(expiring.url, group, topic) == {0: 2}


def test_close_does_not_wait_for_a_broker_that_hangs(
    tmp_path: Path, topic: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for module in ("push_engine.CLOSE_S", "membership.LEAVE_S"):
        monkeypatch.setattr(f"lakemq.client.consume.{module}", 0.1)
    seen = Seen()
    with start_gateway(tmp_path / "data") as gateway:
        put(gateway.url, topic, ["m"])
        consumer = PushConsumer("g", seen.add, brokers=gateway.url, consume_from="first")
        consumer.subscribe(topic)
        consumer.start()
        seen.wait(["m"])
        os.kill(gateway.pid, signal.SIGSTOP)
        consumer.close()
        os.kill(gateway.pid, signal.SIGCONT)
    assert "in time" in caplog.text


def test_a_broker_that_goes_away_is_said_once_whatever_its_queues_and_once_that_it_is_back(
    tmp_path: Path, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Regression: each queue said so at each try."""
    caplog.set_level(logging.INFO, "lakemq.client")
    seen = Seen()

    def said(words: str) -> list[int]:
        return [record.levelno for record in caplog.records if words in record.getMessage()]

    with start_gateway(tmp_path / "data", broker__name="b-1") as gateway:
        make_topic(gateway.url, topic, queues=8)
        with PushConsumer("g", seen.add, brokers=gateway.url, consume_from="first") as consumer:
            consumer.subscribe(topic)
            put(gateway.url, topic, numbered(8))
            seen.wait(numbered(8))
            gateway.kill()
            wait_until(lambda: bool(said("broker b-1 is unreachable")))
            port = int(gateway.url.rpartition(":")[2])
            with start_gateway(tmp_path / "data", broker__name="b-1", gateway__port=port) as again:
                put(again.url, topic, numbered(8, "n"))
                seen.wait(numbered(8, "n"))
                assert said("broker b-1 is unreachable") == [logging.WARNING]
                assert said("broker b-1 is back") == [logging.INFO]
                assert not said("can't pull from")


def test_a_strategy_that_fails_is_said_and_tried_again(
    gateway: GatewayProcess, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    def strategy(queues: Any, members: Any) -> Assignment:
        raise RuntimeError(f"no plan for {len(queues)} queues of {len(members)}")

    make_topic(gateway.url, topic)
    with PushConsumer(group, Seen().add, brokers=gateway.url, strategy=strategy) as consumer:
        consumer.subscribe(topic)
        assert consumer.queues == []
    assert "no plan" in caplog.text


def test_a_file_of_offsets_that_is_none_is_said(
    gateway: GatewayProcess, topic: str, group: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "offsets.json"
    file.write_text("[1, 2")
    put(gateway.url, topic, ["m"])
    seen = Seen()
    options: dict[str, Any] = {"model": "broadcasting", "offset_file": file, "consume_from": "first"}
    with PushConsumer(group, seen.add, brokers=gateway.url, **options) as consumer:
        consumer.subscribe(topic)
        wait_until(lambda: "no file of offsets" in caplog.text)
        file.unlink()
        seen.wait(["m"])
        with pytest.raises(InvalidRequest, match="another consumer"):
            PushConsumer(group, seen.add, brokers=gateway.url, **options).start()
    assert sorted(each.name for each in tmp_path.iterdir()) == [file.name, f"{file.name}.lock"]
    with PushConsumer(group, seen.add, brokers=gateway.url, **options):
        pass


def test_who_was_stopped_past_its_expiry_sets_no_offset_back(expiring: GatewayProcess, topic: str, group: str) -> None:
    make_topic(expiring.url, topic, 2)
    put(expiring.url, topic, numbered(100))
    seen = Seen()
    with ConsumerProcess(expiring.url, group, topic, orderly=False, message_s=0.02) as stopped:
        wait_until(lambda: len(stopped.texts) > 5)
        stopped.signal(signal.SIGSTOP)
        with PushConsumer(group, seen.add, brokers=expiring.url, consume_from="first") as other:
            other.subscribe(topic)
            wait_until(lambda: set(numbered(100)) <= {*seen.texts, *stopped.texts})
            for queue_id in range(2):  # whoever sees the last has all that comes before
                put(expiring.url, topic, [f"last {queue_id}"], queue_id=queue_id)
            seen.wait(["last 0", "last 1"])
        assert offsets(expiring.url, group, topic) == {0: 51, 1: 51}
        stopped.signal(signal.SIGCONT)
        wait_until(lambda: view(expiring.url, group)["members"] != [])
        for _ in range(20):
            assert offsets(expiring.url, group, topic) == {0: 51, 1: 51}
            time.sleep(0.05)
