"""The history by message: who sent it, where it was promised, where it was seen."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from lakemq.testing.history.operation import History, Operation, Row

SENDS = ("produce", "half")
READS = ("pull", "scan", "receive", "look")


class Sent(NamedTuple):
    """One payload of an operation that sends, the `place`-th of them; `row`: where it was promised."""

    operation: Operation
    payload: str
    row: Row | None


class Seen(NamedTuple):
    """A row in the answer of an operation."""

    operation: Operation
    row: Row


class Sightings:
    """Indexes of a history, made once. A payload is sent by one operation, or again by some that say so
    (`again`, for an idempotency key)."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.sent: dict[str, list[Sent]] = defaultdict(list)
        self.seen: list[Seen] = []
        self.of_payload: dict[str, list[Seen]] = defaultdict(list)
        for operation in history.of(*SENDS):
            self._enter_sent(operation)
        for operation in history.done(*READS):
            self._enter_seen(operation)
        self.last_scan = max(history.done("scan"), key=lambda scan: scan.begun, default=None)
        self.last_lake = max(history.done("lake"), key=lambda lake: lake.begun, default=None)

    @property
    def last_rows(self) -> list[Row]:
        """What is there in the end: in the last scan, or in the lake."""
        reads = (self.last_scan, self.last_lake)
        return [row for read in reads if read is not None for row in read.rows]

    def _enter_sent(self, operation: Operation) -> None:
        rows: list[Row | None] = [*operation.rows] if operation.ok else []
        payloads: list[str] = operation.request["payloads"]
        rows += [None] * (len(payloads) - len(rows))
        for payload, row in zip(payloads, rows, strict=True):
            self.sent[payload].append(Sent(operation, payload, row))

    def _enter_seen(self, operation: Operation) -> None:
        for row in operation.rows:
            seen = Seen(operation, row)
            self.seen.append(seen)
            if row.payload is not None:
                self.of_payload[row.payload].append(seen)

    def places(self) -> Iterator[Seen]:
        """All rows that anyone was told of: promised and seen."""
        for every in self.sent.values():
            for sent in every:
                if sent.row is not None and sent.operation.kind == "produce":
                    yield Seen(sent.operation, sent.row)
        yield from self.seen

    def in_topic(self, payload: str, topic: str) -> list[Seen]:
        """Where the payload was seen in that topic."""
        return [seen for seen in self.of_payload.get(payload, ()) if seen.row.topic == topic]
