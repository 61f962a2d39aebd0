"""Producers whose brokers are killed, restarted, stopped, or never there."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakemq.client import Message, MessageFields, Producer, SendFuture, Unreachable, aio
from lakemq.client.http import HttpClient
from lakemq.model.errors import FlowControl, InvalidRequest, LakemqError
from lakemq.testing import GatewayProcess, start_gateway
from tests.client.producing import DEAD, bodies, reaches
from tests.ports import free_port
from tests.standstill import begins_again_after

KILLS = 1
ANSWER_S = 1.0
"""A broker that is there answers in that time, unless the machine stands still."""


@contextmanager
def two_gateways(folder: Path) -> Generator[tuple[GatewayProcess, GatewayProcess]]:
    """Two brokers with two queues of the topic `orders` each."""
    with (
        start_gateway(folder / "a", broker__name="a") as first,
        start_gateway(folder / "b", broker__name="b") as second,
    ):
        for gateway in (first, second):
            with HttpClient(gateway.url) as http:
                http.create_topic("orders", 2)
        yield first, second
        for gateway in (first, second):
            gateway.kill()


@pytest.mark.parametrize("ordered", [False, True])
def test_a_killed_broker_that_comes_back_has_everything_once(tmp_path: Path, ordered: bool) -> None:
    port = free_port()
    gateway = start_gateway(tmp_path, gateway__port=port)
    stop = threading.Event()
    futures: list[SendFuture] = []

    def send(producer: Producer) -> None:
        while not stop.is_set():
            for _ in range(50):
                key = f"key-{len(futures) % 3}" if ordered else None
                futures.append(producer.send_async("orders", b"%d" % len(futures), ordering_key=key))
            time.sleep(0.002)

    with Producer(gateway.url, timeout_s=60, batch_messages=200) as producer:
        producer.send("orders", b"make the topic")
        sender = threading.Thread(target=send, args=(producer,))
        sender.start()
        for _ in range(KILLS):
            reached = len(futures) + 2_000
            while len(futures) < reached:
                time.sleep(0.01)
            gateway.kill()
            gateway = start_gateway(tmp_path, gateway__port=port)
        stop.set()
        sender.join()
        producer.flush()
    found = [int(body) for body in bodies(gateway.url, "orders") if body.isdigit()]
    gateway.stop()
    assert [number for number, count in Counter(found).items() if count > 1] == []
    assert set(found) == set(range(len(futures)))
    assert all(future.exception(0) is None for future in futures)
    if ordered:
        assert all(
            in_order == sorted(in_order)
            for in_order in ([number for number in found if number % 3 == key] for key in range(3))
        )


def test_a_broker_that_died_is_avoided(tmp_path: Path) -> None:
    with two_gateways(tmp_path) as (first, second):
        keys = [f"{key}" for key in range(20)]
        with Producer([second.url, first.url]) as producer:
            places = {key: {producer.send("orders", b"x", ordering_key=key)[1:4:2] for _ in range(3)} for key in keys}
            assert all(len(place) == 1 for place in places.values())
            assert len({place for found in places.values() for place in found}) == 4
            with pytest.raises(InvalidRequest, match="several brokers"):
                producer.send_batch("orders", [Message(body="x", ordering_key=key) for key in keys])
        with Producer(f"{first.url},{second.url}", timeout_s=20) as producer:
            assert reaches(producer, "orders", "a", "b")
            first.kill()
            assert {producer.send("orders", b"y").broker for _ in range(20)} == {"b"}
        assert sum(body == b"y" for body in bodies(second.url, "orders")) == 20


@begins_again_after(ANSWER_S)
def test_without_duplicates_what_may_be_stored_on_a_broker_that_hangs_goes_nowhere_else(tmp_path: Path) -> None:
    with (
        two_gateways(tmp_path) as (first, second),
        Producer([first.url, second.url], timeout_s=6, attempt_timeout_s=3, duplicates_allowed=False) as producer,
    ):
        assert reaches(producer, "orders", "a", "b")
        os.kill(first.pid, signal.SIGSTOP)
        try:
            errors = [error for number in range(6) if (error := _try(producer, number)) is not None]
        finally:
            os.kill(first.pid, signal.SIGCONT)
    assert len(errors) == 1  # then the broker is avoided
    assert isinstance(errors[0], Unreachable)
    assert errors[0].sent


def test_a_broker_that_hangs_holds_up_nothing_for_the_others(tmp_path: Path) -> None:
    with (
        two_gateways(tmp_path) as (first, second),
        Producer([first.url, second.url], timeout_s=300, attempt_timeout_s=300, batch_messages=10) as producer,
    ):
        assert reaches(producer, "orders", "a", "b")
        os.kill(first.pid, signal.SIGSTOP)
        try:
            futures = [producer.send_async("orders", b"%d" % number) for number in range(500)]
            deadline_s = time.monotonic() + 60
            while sum(not future.done() for future in futures) > 100 and time.monotonic() < deadline_s:
                time.sleep(0.05)
            assert sum(not future.done() for future in futures) <= 100  # all but those bound to it
        finally:
            os.kill(first.pid, signal.SIGCONT)
        assert {future.result(60).broker for future in futures} == {"a", "b"}


@pytest.mark.parametrize("fields", [{}, {"ordering_key": "k"}, {"delay_level": 1}])
def test_an_answer_that_came_too_late_is_asked_for_again_and_nothing_is_stored_twice(
    gateway: GatewayProcess, topic: str, fields: MessageFields
) -> None:
    with Producer(gateway.url, timeout_s=60, attempt_timeout_s=0.5, retries=100) as producer:
        producer.send(topic, b"make the topic")
        producer.send_async(topic, b"the queues are known", **fields).result()
        os.kill(gateway.pid, signal.SIGSTOP)
        try:
            futures = [producer.send_async(topic, b"%d" % number, **fields) for number in range(10)]
            time.sleep(1.2)
        finally:
            os.kill(gateway.pid, signal.SIGCONT)
        places = {(receipt.queue_id, receipt.position) for receipt in (future.result(60) for future in futures)}
    assert len(places) == 10
    found = bodies(gateway.url, topic)
    while len(found) < 12:  # the delayed ones
        time.sleep(0.05)
        found = bodies(gateway.url, topic)
    assert len(found) == len(set(found)) == 12


def _try(producer: Producer, number: int) -> LakemqError | None:
    try:
        producer.send("orders", b"try %d" % number)
    except LakemqError as error:
        return error
    return None


def test_two_brokers_of_one_name_are_refused(tmp_path: Path) -> None:
    with (
        start_gateway(tmp_path / "a") as first,
        start_gateway(tmp_path / "b") as second,
        Producer([first.url, second.url]) as producer,
        pytest.raises(InvalidRequest, match=r"broker\.name"),
    ):
        producer.send("orders", b"x")


@contextmanager
def deaf_listener() -> Generator[str]:
    """The address of a server that takes connections and never says anything."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_server_that_never_answers_is_given_up() -> None:
    with (
        deaf_listener() as address,
        Producer(address, timeout_s=0.5, attempt_timeout_s=0.2) as producer,
        pytest.raises(Unreachable),
    ):
        producer.send("orders", b"x")


def test_a_broker_that_starts_late_is_waited_for(tmp_path: Path) -> None:
    port = free_port()
    with Producer(f"http://127.0.0.1:{port}", timeout_s=60) as producer:
        futures = [producer.send_async("orders", b"early")]
        keyed = threading.Thread(
            target=lambda: futures.append(producer.send_async("orders", b"keyed", ordering_key="k"))
        )
        keyed.start()  # that waits until the queues are known
        with start_gateway(tmp_path, gateway__port=port) as gateway:
            keyed.join()
            assert [future.result(60).queue_offset for future in futures]
            assert sorted(bodies(gateway.url, "orders")) == [b"early", b"keyed"]


def test_what_flow_control_refuses_is_tried_again_and_then_an_error(tmp_path: Path) -> None:
    with start_gateway(tmp_path, delay__waiting_max=1) as gateway, Producer(gateway.url) as producer:
        producer.send("orders", "first", delay=3600)
        with pytest.raises(FlowControl):
            producer.send("orders", "second", delay=3600)
        assert producer.send("orders", "at once").queue_offset == 0


def test_the_same_with_asyncio() -> None:
    async def send() -> None:
        async with aio.Producer(DEAD, timeout_s=0.2, attempt_timeout_s=0.2) as producer:
            with pytest.raises(Unreachable):
                await producer.send("orders", b"x")
            with pytest.raises(Unreachable):
                await producer.send("orders", b"x", ordering_key="k")

    asyncio.run(send())
