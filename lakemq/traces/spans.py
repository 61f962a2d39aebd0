"""Spans on their way out: a bounded queue, and a thread that gives them to an exporter.

Whoever adds a span never waits, whatever the collector does: what finds no room is dropped, and counted.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from threading import Event, Lock, Thread
from typing import Protocol

from lakemq.traces.span import Span

logger = logging.getLogger(__name__)

BATCH_MAX = 512
"""So many spans go in one request, as with OpenTelemetry's own processors."""
DELAY_S = 1.0
"""So long a span waits for others."""
STOP_S = 2.0
"""So long a process that ends waits for its last spans to go out."""


class Exporter(Protocol):
    """Where spans go."""

    def export(self, spans: Sequence[Span]) -> bool:
        """Whether the collector has taken them. It may take as long as it likes, and raise."""
        ...

    def close(self) -> None:
        """From any thread: an export that is under way gives up."""
        ...


class Spans:
    """Those of one process. `exported`, `dropped` (found no room, or the process has ended), `failed` (not taken by the
    collector): how many there were."""

    def __init__(self, exporter: Exporter, queue_max: int) -> None:
        self.exported = 0
        self.failed = 0
        self._dropped = 0
        self._exporter = exporter
        self._most = queue_max
        self._queue: SimpleQueue[Span | None] = SimpleQueue()
        self._counting = Lock()
        self._closing = Event()
        self._given_up = False
        self._told = 0
        self._thread = Thread(target=self._run, name="lakemq spans", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """How many never went out."""
        return self._dropped

    def counts(self) -> list[tuple[tuple[str], int]]:
        """How many there were, by what became of them."""
        return [(("exported",), self.exported), (("dropped",), self.dropped), (("failed",), self.failed)]

    def add(self, span: Span) -> None:
        """Have it go out, if there is room. From any thread, at once."""
        if self._closing.is_set() or self._queue.qsize() >= self._most:
            self.drop(1)
        else:
            self._queue.put(span)

    def drop(self, count: int) -> None:
        """Count spans that don't go out."""
        with self._counting:
            self._dropped += count

    def close(self, grace_s: float = STOP_S) -> None:
        """Have go out what is there, within about `grace_s`."""
        self._closing.set()
        self._queue.put(None)
        self._thread.join(grace_s)
        if self._thread.is_alive():
            self._given_up = True
            self._exporter.close()
            self._thread.join(grace_s)
        else:
            self._exporter.close()

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            if self._queue.qsize() < BATCH_MAX:
                self._closing.wait(DELAY_S)
            batch = [first]
            ended = self._fill(batch)
            self._export(batch)
            if ended:
                return

    def _fill(self, batch: list[Span]) -> bool:
        """Take what is there, as far as it goes in one request; whether nothing comes after it."""
        while len(batch) < BATCH_MAX:
            try:
                span = self._queue.get_nowait()
            except Empty:
                return False
            if span is None:
                return True
            batch.append(span)
        return False

    def _export(self, batch: list[Span]) -> None:
        if self._given_up:
            self.drop(len(batch))
            return
        taken = False
        try:
            taken = self._exporter.export(batch)
        except Exception:
            logger.exception("can't export spans")
        if taken:
            self.exported += len(batch)
        else:
            self.failed += len(batch)
        if self._dropped > self._told:
            self._told = self._dropped
            logger.warning("dropped %d spans so far: the collector is too slow", self._dropped)
