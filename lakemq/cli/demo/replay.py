"""The replay: produce the flights, while a second process consumes and the jobs compact."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import dataclass
from threading import Thread
from typing import IO, Any

import orjson
import pyarrow as pa
from rich.progress import Progress

from lakemq.cli.demo.broker import Broker
from lakemq.cli.demo.flights import message_batches
from lakemq.cli.demo.queries import TOPIC
from lakemq.cli.demo.tally import Outcome
from lakemq.cli.output import progress
from lakemq.client.http import HttpClient
from lakemq.client.results import TableReceipt
from lakemq.model.errors import LakemqError

ROWS_PER_REQUEST = 2_000
STALL_S_MAX = 300.0
"""The demo fails when nothing moves for so long. A cold Spark on a busy machine needs much of it."""
LOOK_S = 0.25


@dataclass(frozen=True)
class Replayed:
    """What went in, and what came out at the other process."""

    produced: int
    outcome: Outcome
    produce_s: float
    lake_s: float
    """From the first message produced until the lake held the last one."""


class Consumer:
    """The second process, and what it has said so far."""

    def __init__(self, url: str) -> None:
        module = "lakemq.cli.demo.consumer"
        self._process = subprocess.Popen(  # noqa: S603  (our own module)
            [sys.executable, "-m", module, url, TOPIC, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0,
        )
        self.consumed = 0
        self.outcome: Outcome | None = None
        self._listener = Thread(target=self._listen, args=[self._process.stdout], daemon=True)
        self._listener.start()

    def tell_produced(self, count: int) -> None:
        """Say that production is over; the consumer then goes on to the end, and ends."""
        if self._process.stdin is not None:
            self._process.stdin.write(f"{count}\n".encode())
            self._process.stdin.close()

    def check_alive(self) -> None:
        """Raises `LakemqError` if it ended without an outcome."""
        if self._process.poll() is not None:
            self._listener.join()
            if self.outcome is None:
                raise LakemqError("the consumer ended before it had consumed everything")

    def stop(self) -> None:
        """End it, if it still runs."""
        self._process.terminate()
        self._process.wait()

    def _listen(self, stream: IO[bytes]) -> None:
        for line in stream:
            said: dict[str, Any] = orjson.loads(line)
            self.consumed = said["consumed"]
            if "missing" in said:
                self.outcome = Outcome(**said)


class _Stages:
    """How far each stage is, on a progress bar; raises when none moves any more."""

    def __init__(self, bar: Progress, broker: Broker, client: HttpClient, count: int) -> None:
        self.produced = 0
        self._bar, self._broker, self._client, self._count = bar, broker, client, count
        self._tasks = [bar.add_task(name, total=count) for name in ("produced", "consumed", "in the lake")]
        self._first_position = self._end_position = client.broker()["max_position"]
        self._is_in_lake = False
        self._seen: tuple[int, ...] = ()
        self._moved_s = time.monotonic()

    def add(self, stored: TableReceipt) -> None:
        """Note one request that was stored."""
        self.produced += stored.count
        self._end_position = stored.first_position + stored.count

    def is_over(self, consumer: Consumer) -> bool:
        """Show how far it is; whether all that was produced is consumed and in the lake."""
        self._broker.check_alive()
        consumer.check_alive()
        compacted = self._client.broker()["compacted_position"]
        in_lake = min(max(compacted - self._first_position, 0), self._count)
        self._show((self.produced, consumer.consumed, in_lake))
        return compacted >= self._end_position and consumer.outcome is not None

    def _show(self, state: tuple[int, int, int]) -> None:
        for task, value in zip(self._tasks, state, strict=True):
            self._bar.update(task, completed=value)
        now = time.monotonic()
        if state != self._seen:
            self._seen, self._moved_s = state, now
        elif now - self._moved_s > STALL_S_MAX:
            raise LakemqError(
                f"nothing has moved for {STALL_S_MAX:.0f} s: produced, consumed and in the lake are {state}; "
                f"see {self._broker.places.log}"
            )


def replay(broker: Broker, client: HttpClient, flights: pa.Table) -> Replayed:
    """Produce all flights; returns once they are consumed and in the lake."""
    consumer = Consumer(broker.url)
    begin_s = time.monotonic()
    try:
        with progress() as bar:
            stages = _Stages(bar, broker, client, flights.num_rows)
            _produce(client, flights, stages, consumer)
            produce_s = time.monotonic() - begin_s
            consumer.tell_produced(stages.produced)
            while not stages.is_over(consumer):
                time.sleep(LOOK_S)
            lake_s = time.monotonic() - begin_s
        if consumer.outcome is None:
            raise LakemqError("the consumer has said no outcome")
        return Replayed(stages.produced, consumer.outcome, produce_s, lake_s)
    finally:
        consumer.stop()


def _produce(client: HttpClient, flights: pa.Table, stages: _Stages, consumer: Consumer) -> None:
    looked_s = 0.0
    for batch in message_batches(flights, ROWS_PER_REQUEST):
        stages.add(client.produce_table(TOPIC, batch))
        if time.monotonic() - looked_s > LOOK_S:
            stages.is_over(consumer)
            looked_s = time.monotonic()
