"""What goes through the fleet: a producer of flights, at a pace that can be watched, and a consumer of them."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Self

import orjson
import pyarrow as pa

from lakemq.cli.demo.flights import message_batches
from lakemq.cli.demo.queries import TOPIC
from lakemq.client import MessageView, Producer, PushConsumer
from lakemq.client.producer import SendFuture
from lakemq.model.errors import LakemqError

GROUP = "tower"
ROWS = 50
PER_S = 1_500
"""So many flights are sent in a second: the replay goes on for some seconds after a leader was killed."""
PATIENCE_S = 60.0
"""The producer's: a switch takes some seconds, on a machine that starts a Spark beside it several."""


@dataclass
class Heard:
    """What the consumer was given. A message may come again where its broker's leader was replaced: the consumer goes
    by a flight's number, as everybody does who must not act twice."""

    lock: Lock = field(default_factory=Lock)
    seen: set[int] = field(default_factory=set[int])
    again: int = 0
    out_of_order: int = 0
    last: dict[str, int] = field(default_factory=dict[str, int])

    def hear(self, message: MessageView) -> None:
        """Take one; messages of several queues come at a time."""
        sequence, tail = orjson.loads(message.body)["sequence"], message.ordering_key
        with self.lock:
            if sequence in self.seen:
                self.again += 1
                return
            self.seen.add(sequence)
            if tail is not None:
                self.out_of_order += sequence < self.last.get(tail, -1)
                self.last[tail] = sequence

    @property
    def count(self) -> int:
        """How many flights, each counted once."""
        return len(self.seen)


@dataclass(frozen=True)
class Sent:
    """A flight that was acknowledged: when, by this process's clock, and at which broker."""

    at_s: float
    broker: str


class Sending:
    """Sends flights in a thread of its own; `sent` grows as they are acknowledged."""

    def __init__(self, name_servers: Sequence[str], flights: pa.Table) -> None:
        self.sent: list[Sent] = []
        self._name_servers = name_servers
        self._flights = flights
        self._failure: BaseException | None = None
        self._thread = Thread(target=self._run, name="producer", daemon=True)

    def start(self) -> Self:
        """Begin."""
        self._thread.start()
        return self

    @property
    def is_over(self) -> bool:
        """Whether it has sent all, or failed."""
        return not self._thread.is_alive()

    def check(self) -> None:
        """Raises `LakemqError` where a flight was not taken."""
        if self._failure is not None:
            raise LakemqError(f"the producer failed: {self._failure}") from self._failure

    def _run(self) -> None:
        try:
            # A flight without a tail number has no ordering key: it could go to another broker when its own doesn't
            # answer, and be stored by both.
            options: dict[str, Any] = {"timeout_s": PATIENCE_S, "retries": 100, "duplicates_allowed": False}
            with Producer(nameservers=self._name_servers, **options) as producer:
                futures = self._send(producer)
                for each in futures:
                    each.result()
        except BaseException as error:  # noqa: BLE001  (raised again by who asks)
            self._failure = error

    def _send(self, producer: Producer) -> list[SendFuture]:
        futures: list[SendFuture] = []
        begun_s = time.monotonic()
        for batch in message_batches(self._flights, ROWS):
            for row in batch.to_pylist():
                fields = {name: value for name, value in row.items() if value is not None}
                future = producer.send_async(TOPIC, **fields)
                future.add_done_callback(self._take)
                futures.append(future)
            time.sleep(max(0.0, begun_s + len(futures) / PER_S - time.monotonic()))
        return futures

    def _take(self, future: SendFuture) -> None:
        if future.exception() is None:
            self.sent.append(Sent(time.monotonic(), future.result().broker))


class Consuming:
    """A consumer of the flights while it is entered."""

    def __init__(self, name_servers: Sequence[str]) -> None:
        self.heard = Heard()
        self._consumer = PushConsumer(
            GROUP, self.heard.hear, nameservers=name_servers, orderly=True, consume_from="first"
        )

    def __enter__(self) -> Self:
        self._consumer.subscribe(TOPIC)
        self._consumer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._consumer.close()
