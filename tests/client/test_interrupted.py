"""A producer that a signal's handler, or a finalizer, uses wherever it has interrupted another of its calls."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest

from lakemq.client import Producer
from lakemq.client.produce.held import INTERRUPTED
from lakemq.model.errors import InvalidRequest
from lakemq.testing import MemoryBroker

WAIT_S = 60.0


@pytest.fixture(scope="module")
def producer() -> Iterator[Producer]:
    with MemoryBroker() as broker:
        made = Producer(broker.url)
        yield made
        made.close()


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
