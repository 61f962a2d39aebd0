"""Applications at a broker: in threads, with asyncio, and as processes that are asked to stop."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from lakemq.client import App, MessageView, Producer, Unreachable, aio
from lakemq.model.errors import InvalidRequest
from lakemq.testing import GatewayProcess
from tests.client.consuming import Seen, numbered, offsets, put, wait_until
from tests.client.producing import DEAD, stored

COUNT = 1_000
"""Messages that take twenty threads half a minute."""


@dataclass
class Order:
    number: int


def test_an_application_in_threads_retries_gives_up_and_sends(brisk: GatewayProcess, topic: str, group: str) -> None:
    app, seen = App(group, brokers=brisk.url, consume_from="first"), Seen()

    @app.listener(topic, retries=1, send_to=f"{topic}-bills")
    def bill(order: Order, message: MessageView) -> Order:
        seen.add(message)
        if order.number == 13:
            raise ValueError("unlucky")
        return Order(order.number * 2)

    @app.listener(f"{topic}-bills")
    def post(text: str, message: MessageView) -> None:
        seen.add(message)

    assert app.health.state == "new"
    with app:
        wait_until(lambda: app.health.ready)
        with pytest.raises(InvalidRequest, match="the application runs"):
            app.listener("late")
        with pytest.raises(InvalidRequest, match="runs already"):
            app.start()
        app.producer.send_batch(topic, [Order(1), Order(13), "unfit"])
        seen.wait(['{"number":2}'])
        wait_until(lambda: len(stored_dead(brisk.url, group)) == 2)
        assert app.health.failed == 3
    assert (app.health.state, app.health.in_hand, app.health.processed) == ("stopped", 0, 2)
    assert sorted(seen.texts) == ['{"number":13}', '{"number":13}', '{"number":1}', '{"number":2}']
    dead = {message.text(): str(message.failure_text) for message in stored_dead(brisk.url, group)}
    assert dead['{"number":13}'] == "unlucky"
    assert dead["unfit"].startswith("the body is no Order: Invalid JSON")


def stored_dead(url: str, group: str) -> list[MessageView]:
    try:
        return stored(url, f"%DLQ%{group}")
    except Exception:  # noqa: BLE001  it isn't there yet
        return []


def test_an_application_with_asyncio_has_both_kinds_of_listeners_and_keeps_order(
    brisk: GatewayProcess, topic: str, group: str
) -> None:
    app, seen = aio.App(group, brokers=brisk.url, consume_from="first", concurrency=8), Seen()
    failed = list[str]()

    @app.listener(topic, orderly=True)
    async def first(text: str, message: MessageView, producer: aio.Producer) -> None:
        if text == "1" and not failed:
            failed.append(text)
            raise ValueError(text)
        seen.add(message)
        await producer.send(f"{topic}-next", text + "!")

    @app.listener(f"{topic}-next", group=f"{group}-next")
    def second(message: MessageView) -> None:
        assert threading.current_thread() is not threading.main_thread()
        seen.add(message)

    async def main() -> None:
        async with app:
            for number in range(3):
                await app.producer.send(topic, str(number), ordering_key="k")
            await asyncio.to_thread(seen.wait, ["0", "1", "2", "0!", "1!", "2!"])
            assert app.health.ready
            assert app.health.connected == {group: True, f"{group}-next": True}

    asyncio.run(main())
    assert [text for text in seen.texts if "!" not in text] == ["0", "1", "2"]
    assert app.health.failed == 1


def test_an_application_without_a_broker_does_not_start_and_closes_what_it_opened() -> None:
    closed, before = list[str](), signal.getsignal(signal.SIGTERM)
    app = App("g", brokers=DEAD)
    app.listener("t")(lambda message: None)  # pyright: ignore[reportUnknownLambdaType]
    app.on_stop(lambda: closed.append("stopped"))
    with pytest.raises(Unreachable):
        app.start()
    assert (app.health.state, closed) == ("stopped", ["stopped"])
    with pytest.raises(Unreachable):
        app.run()
    refused = list[type]()

    def elsewhere() -> None:
        with pytest.raises(InvalidRequest, match="belongs in the main thread") as error:
            app.run()
        refused.append(error.type)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert refused == [InvalidRequest]
    assert signal.getsignal(signal.SIGTERM) is before


@contextmanager
def running(*arguments: object) -> Generator[subprocess.Popen[bytes], None, None]:
    command = [sys.executable, "-m", "tests.client.app_program", *map(str, arguments)]
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("kind", ["threads", "loop"])
def test_the_first_signal_waits_for_what_is_in_hand_and_nothing_more(
    gateway: GatewayProcess, topic: str, kind: str, tmp_path: Path
) -> None:
    put(gateway.url, topic, numbered(COUNT), queue_id=0)
    with running(kind, gateway.url, topic, 0.5, tmp_path) as process:
        wait_until(lambda: (tmp_path / "begun").exists())
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert {"started", "stopped", "ended"} <= names
    done = {name for name in names if name.startswith("m")}
    assert 0 < len(done) < COUNT
    committed = offsets(gateway.url, topic, topic)[0]
    assert {f"m{number}" for number in range(committed)} <= done, "nothing is committed that was not processed"


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler for the signal."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    mask = next(int(line.split()[1], 16) for line in lines if line.startswith("SigCgt:"))
    return bool(mask >> (number - 1) & 1)


@pytest.mark.parametrize("kind", ["threads", "loop"])
def test_the_second_signal_ends_the_process_at_once(
    gateway: GatewayProcess, topic: str, kind: str, tmp_path: Path
) -> None:
    put(gateway.url, topic, ["m0"])
    with running(kind, gateway.url, topic, 1000, tmp_path) as process:
        wait_until(lambda: (tmp_path / "begun").exists())
        process.send_signal(signal.SIGINT)
        wait_until(lambda: not catches(process.pid, signal.SIGTERM))
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == -signal.SIGTERM
    assert not (tmp_path / "stopped").exists()


def test_a_program_that_sends_nothing_of_its_own_has_its_producer_still(gateway: GatewayProcess, topic: str) -> None:
    app = App(topic, brokers=gateway.url)
    with app:
        assert isinstance(app.producer, Producer)
        app.producer.send(topic, json={"a": 1})
    assert stored(gateway.url, topic)[0].json() == {"a": 1}
