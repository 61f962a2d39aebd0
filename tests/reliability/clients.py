"""Clients of the package under faults: a producer whose sends may not fail, and two kinds of consumers. All find the
brokers by a name server."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from lakemq.client import MessageView, Producer, PullConsumer, PushConsumer
from lakemq.model.errors import LakemqError
from tests.reliability.ledger import TOPIC, Ledger, Taken
from tests.reliability.verdict import epoch_of

KINDS = ("push", "pull")
WAIT_S = 60.0
PAUSE_S = 0.005
WRITER = "9"
"""As the ledger's writers are called: none of them."""


class Clients:
    """They work from `start` until `stop`. `heard`: by kind, the bodies that were heard; `began`: by kind and epoch,
    when the first message of that epoch was heard, by this process's clock; `failures`: what callers were told."""

    def __init__(self, nameserver: str, ledger: Ledger) -> None:
        self._nameserver = nameserver
        self._ledger = ledger
        self._ends = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(each,), name=f"client {each.__name__}")
            for each in (self._produce, self._pull)
        ]
        self._push: PushConsumer | None = None
        self.heard: dict[str, set[str]] = {kind: set() for kind in KINDS}
        self.began: dict[tuple[str, int], float] = {}
        self.failures: list[str] = []

    def start(self) -> None:
        """Begin; the topic is there."""
        push = PushConsumer("of-push", self._listen, nameservers=self._nameserver, consume_from="first")
        push.subscribe(TOPIC)
        push.start()
        self._push = push
        for each in self._threads:
            each.start()

    def stop(self) -> None:
        """End the producer and both consumers."""
        self._ends.set()
        for each in self._threads:
            each.join()
        if self._push is not None:
            self._push.close()

    def lacking(self) -> dict[str, int]:
        """By kind, how many that were acknowledged were not heard yet."""
        taken = set(self._ledger.taken)
        return {kind: len(taken - self.heard[kind]) for kind in KINDS if taken - self.heard[kind]}

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001  the run says it
            self.failures.append(f"{work.__name__}: {error!r}")

    def _produce(self) -> None:
        with Producer(nameservers=self._nameserver, timeout_s=WAIT_S) as producer:
            number = 0
            while not self._ends.wait(PAUSE_S):
                body, sent_s = f"{WRITER}-{number}", time.monotonic()
                self._ledger.sent[body] = len(self._ledger.sent)
                receipt = producer.send(TOPIC, body, ordering_key=WRITER)
                # It may have been sent several times, so its answer says nothing of when it was stored.
                placed = Taken(receipt.message_id, receipt.position, time.monotonic(), sent_s, times=2)
                self._ledger.taken[body] = placed
                number += 1

    def _pull(self) -> None:
        with PullConsumer("of-pull", nameservers=self._nameserver, consume_from="first") as consumer:
            consumer.subscribe(TOPIC)
            while not self._ends.is_set():
                try:
                    found = consumer.poll(wait_s=1.0)
                except LakemqError:
                    self._ends.wait(PAUSE_S)  # a queue whose broker changes its leader; the next poll goes on
                    continue
                for message in found:
                    self._hear("pull", message)

    def _listen(self, message: MessageView) -> None:
        self._hear("push", message)

    def _hear(self, kind: str, message: MessageView) -> None:
        self.began.setdefault((kind, epoch_of(message.message_id)), time.monotonic())
        self.heard[kind].add(message.text())
