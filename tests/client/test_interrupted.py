"""Clients that a signal's handler, or a finalizer, uses wherever it has interrupted another call."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from types import FrameType
from typing import Any

import pytest

from lakemq.client import Admin, Producer, PushConsumer, SimpleConsumer
from lakemq.client.held import INTERRUPTED
from lakemq.model.errors import InvalidRequest
from lakemq.testing import MemoryBroker

WAIT_S = 60.0


@pytest.fixture(scope="module")
def broker() -> Iterator[MemoryBroker]:
    with MemoryBroker() as made:
        yield made


@pytest.fixture(scope="module")
def producer(broker: MemoryBroker) -> Iterator[Producer]:
    with Producer(broker.url) as made:
        yield made


class Interrupted:
    """`call`, with `handler` called before its line number `at`, in whatever module that is, as by a signal."""

    def __init__(self, call: Callable[[], object], handler: Callable[[], object], at: int) -> None:
        self.lines, self.at, self.place = 0, at, ""
        self._call, self._handler = call, handler

    def run(self) -> None:
        """In a thread of its own; fails where it never ends."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        thread.join(WAIT_S)
        assert not thread.is_alive(), f"it hangs, interrupted at {self.place}"

    def _run(self) -> None:
        sys.settrace(self._trace)
        try:
            self._call()
        finally:
            sys.settrace(None)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self.lines += 1
            if self.lines == self.at:
                self.place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                self._handler()
        return self._trace


CALLS: list[Callable[[Producer, str], object]] = [
    lambda producer, topic: producer.send_async(topic, b"x"),
    lambda producer, topic: producer.send(topic, b"x"),
    lambda producer, topic: producer.send_oneway(topic, b"x", keys=["k"]),
    lambda producer, topic: producer.send_batch(topic, [b"x", b"y"]),
    lambda producer, _: producer.flush(),
]


@pytest.mark.parametrize("call", CALLS, ids=["send_async", "send", "send_oneway", "send_batch", "flush"])
def test_a_handler_may_send_wherever_it_interrupts_or_is_told_that_it_may_not(
    producer: Producer, topic: str, call: Callable[[Producer, str], object]
) -> None:
    refused: set[str] = set()
    sent = 0

    def send() -> None:
        nonlocal sent
        try:
            producer.send(topic, b"handled")
            sent += 1
        except RuntimeError as error:
            refused.add(str(error))

    at = 1
    while True:
        interrupted = Interrupted(lambda: call(producer, topic), send, at)
        interrupted.run()
        if interrupted.lines < at:
            break
        at += 1
    assert sent
    assert refused <= {INTERRUPTED}


def test_the_result_of_a_send_may_be_waited_for_wherever_that_is_interrupted(producer: Producer, topic: str) -> None:
    """Also where it failed, as what `close` is to tell is then kept by who asks."""
    at, lines = 1, 1
    while lines >= at:
        sent = producer.send_async(topic, b"x"), producer.send_async(topic, b"x", delay_level=99)

        def result(sent: tuple[Any, ...] = sent) -> None:
            for each in sent:
                with suppress(InvalidRequest):
                    each.result()

        interrupted = Interrupted(result, result, at)
        interrupted.run()
        lines, at = interrupted.lines, at + 1


def test_a_handler_may_use_other_clients_wherever_it_interrupts_a_send_or_is_told_that_it_may_not(
    broker: MemoryBroker, producer: Producer, topic: str
) -> None:
    url = broker.url
    with Producer(url) as other, Admin(brokers=url) as admin, SimpleConsumer("g", brokers=url) as consumer:
        uses: list[Callable[[], object]] = [
            lambda: other.send(topic, b"handled"),
            admin.topics,
            lambda: consumer.receive(topic, wait_s=0),
            lambda: next(consumer.messages(topic, idle_s=0), None),
        ]
        used: set[Callable[[], object]] = set()
        refused: set[Callable[[], object]] = set()

        def use() -> None:
            for each in uses:
                try:
                    each()
                    used.add(each)
                except RuntimeError as error:
                    assert str(error) == INTERRUPTED  # noqa: PT017
                    refused.add(each)

        at, lines = 1, 1
        while lines >= at:
            interrupted = Interrupted(lambda: producer.send_async(topic, b"x"), use, at)
            interrupted.run()
            lines, at = interrupted.lines, at + 1
        assert used == refused == set(uses)


def test_what_a_handler_was_refused_to_send_is_not_sent(broker: MemoryBroker, topic: str) -> None:
    with Producer(broker.url) as producer, Producer(broker.url) as other, Admin(brokers=broker.url) as admin:
        producer.send(topic, b"x")
        sent = refused = 0

        def send() -> None:
            nonlocal sent, refused
            try:
                other.send(topic, b"handled")
                sent += 1
            except RuntimeError:
                refused += 1

        at, lines = 1, 1
        while lines >= at:
            interrupted = Interrupted(lambda: producer.send_async(topic, b"x"), send, at)
            interrupted.run()
            lines, at = interrupted.lines, at + 1
        producer.flush()
        other.flush()
        stored = sum(queue.end for queue in admin.topic(topic).queues)
    assert refused
    assert stored == 1 + (at - 1) + sent


def test_a_handler_may_wait_for_an_earlier_send_wherever_it_interrupts_or_is_told_that_it_may_not(
    producer: Producer, topic: str
) -> None:
    answers: set[str] = set()

    def send(sent: list[Any]) -> None:
        sent.append(producer.send_async(topic, b"x"))
        producer.send_async(topic, b"y")

    def result(sent: list[Any]) -> None:
        try:
            answers.update(each.result().message_id and "stored" for each in sent)
        except RuntimeError as error:
            answers.add(str(error))

    at, lines = 1, 1
    while lines >= at:
        sent = list[Any]()
        interrupted = Interrupted(lambda sent=sent: send(sent), lambda sent=sent: result(sent), at)
        interrupted.run()
        lines, at = interrupted.lines, at + 1
    assert answers == {"stored", INTERRUPTED}


def test_an_iteration_that_is_deleted_in_the_middle_of_a_send_is_closed(
    broker: MemoryBroker, producer: Producer, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As by the garbage collector, which says on stderr what it raises."""
    with SimpleConsumer("deleted", brokers=broker.url) as consumer:
        at, lines = 1, 1
        while lines >= at:
            producer.send(topic, b"x")
            iterations = [consumer.messages(topic)]
            next(iterations[0])
            call = partial(producer.send_async, topic, b"x")
            interrupted = Interrupted(call, iterations.clear, at)
            interrupted.run()
            lines, at = interrupted.lines, at + 1
    assert capsys.readouterr().err == ""


def test_a_push_consumer_may_be_closed_wherever_its_close_is_interrupted(
    broker: MemoryBroker, producer: Producer, topic: str
) -> None:
    producer.send(topic, b"x")
    at, lines = 1, 1
    while lines >= at:
        consumer = PushConsumer("closed", lambda message: None, brokers=broker.url)
        interrupted = Interrupted(consumer.close, consumer.close, at)
        interrupted.run()
        lines, at = interrupted.lines, at + 1
