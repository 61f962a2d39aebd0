"""What the log says of a message whose listener failed."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from lakemq.client import App, MessageView, PushConsumer, aio
from lakemq.client.consume.outlook import RETRIES, Outlook
from lakemq.settings.routing import Retry
from lakemq.testing import GatewayProcess
from tests.client.consuming import is_there, make_topic, put, wait_until
from tests.client.producing import stored


@pytest.mark.parametrize(
    ("outlook", "reconsume_times", "said"),
    [
        (Outlook(False, False, 2, 1), 0, "attempt 1 of 3, the broker delivers it again, by default in 10 s"),
        (Outlook(False, False, 2, 1), 1, "attempt 2 of 3, the broker delivers it again, by default in 30 s"),
        (Outlook(False, False, 2, 1), 2, "attempt 3 of 3, it goes to the dead letters"),
        (Outlook(False, False, 0, 1), 0, "attempt 1 of 1, it goes to the dead letters"),
        (Outlook(False, False, 900, 1), 800, "attempt 801 of 901, the broker delivers it again, by default in 2 h"),
        (
            Outlook(False, False, None, 1),
            2,
            "attempt 3 of 17 by default, the broker delivers it again, by default in 1 min",
        ),
        (
            Outlook(False, False, None, 1),
            16,
            "attempt 17 of 17 by default, it goes to the dead letters unless the broker allows more",
        ),
        (Outlook(True, False, None, 1.5), 40, "attempt 41, its queue waits for the retry in 1.5 s"),
        (Outlook(True, False, 1, 1), 0, "attempt 1 of 2, its queue waits for the retry in 1 s"),
        (Outlook(True, False, 1, 1), 1, "attempt 2 of 2, it goes to the dead letters"),
        (Outlook(False, True, None, 1), 0, "no retry: broadcasting has none"),
        (Outlook(True, True, None, 1), 0, "attempt 1, its queue waits for the retry in 1 s"),
        (Outlook(True, True, 1, 1), 1, "no retry: broadcasting has none"),
        (Outlook(False, False, 16, 1, {"": 2}), 1, "attempt 2 of 3, the broker delivers it again, by default in 30 s"),
    ],
)
def test_each_failure_says_its_attempt_and_what_comes(outlook: Outlook, reconsume_times: int, said: str) -> None:
    assert outlook.after(reconsume_times) == said


def test_the_default_is_the_brokers() -> None:
    assert Retry().max_reconsume_times == RETRIES


@pytest.mark.parametrize(
    ("orderly", "first"),
    [
        (False, "attempt 1 of 2, the broker delivers it again, by default in 10 s"),
        (True, "attempt 1 of 2, its queue waits for the retry in 0.01 s"),
    ],
)
def test_the_log_says_what_comes_and_it_does(
    brisk: GatewayProcess, topic: str, group: str, caplog: pytest.LogCaptureFixture, orderly: bool, first: str
) -> None:
    """Regression: it only said that the listener failed."""
    make_topic(brisk.url, topic, 1)
    put(brisk.url, topic, ["x"])
    options: dict[str, Any] = {"brokers": brisk.url, "consume_from": "first", "max_reconsume_times": 1}
    options |= {"orderly": orderly, "suspend_s": 0.01}

    def has_letter(of: str) -> bool:
        return is_there(brisk.url, f"%DLQ%{of}") and len(stored(brisk.url, f"%DLQ%{of}")) == 1

    def fail(message: MessageView) -> None:
        raise ValueError(message.text())

    async def fail_there(message: MessageView) -> None:
        raise ValueError(message.text())

    async def run() -> None:
        async with aio.PushConsumer(f"{group}-there", fail_there, **options) as consumer:
            await consumer.subscribe(topic)
            await asyncio.to_thread(wait_until, lambda: has_letter(f"{group}-there"))

    with PushConsumer(group, fail, **options) as consumer:
        consumer.subscribe(topic)
        wait_until(lambda: has_letter(group))
    here = [each.message.partition(": ")[2] for each in caplog.records if "the listener failed" in each.message]
    caplog.clear()
    asyncio.run(run())
    there = [each.message.partition(": ")[2] for each in caplog.records if "the listener failed" in each.message]
    assert here == there == [first, "attempt 2 of 2, it goes to the dead letters"]


def test_an_applications_log_counts_the_retries_of_the_listener_that_failed(
    brisk: GatewayProcess, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It said "attempt 1 of 17", as another listener of the group had 16 retries."""
    make_topic(brisk.url, topic, 1)
    make_topic(brisk.url, f"{topic}-2", 1)
    put(brisk.url, topic, ["x"])
    app = App(group, brokers=brisk.url, consume_from="first")

    @app.listener(topic, retries=1)
    def fail(body: bytes) -> None:
        raise ValueError(body)

    @app.listener(f"{topic}-2")
    def other(body: bytes) -> None: ...

    with app:
        wait_until(lambda: "the listener failed" in caplog.text)
    assert "attempt 1 of 2," in caplog.text


def test_a_listener_without_retries_that_takes_too_long_makes_a_dead_letter(
    brisk: GatewayProcess, topic: str, group: str
) -> None:
    """It came again as often as another listener of the group allows."""
    make_topic(brisk.url, topic, 1)
    make_topic(brisk.url, f"{topic}-2", 1)
    put(brisk.url, topic, ["x"])
    calls, over = list[bytes](), threading.Event()
    app = App(group, brokers=brisk.url, consume_from="first", consume_timeout_s=0.2)

    @app.listener(topic, retries=0)
    def hang(body: bytes) -> None:
        calls.append(body)
        over.wait()

    @app.listener(f"{topic}-2")
    def other(body: bytes) -> None: ...

    with app:
        try:
            wait_until(lambda: is_there(brisk.url, f"%DLQ%{group}") and len(stored(brisk.url, f"%DLQ%{group}")) == 1)
        finally:
            over.set()
    assert calls == [b"x"]
