"""What groups were handed out by `receive`, and what became of it, by group and message."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

from lakemq.testing.history.operation import NEVER, Operation, Row
from lakemq.testing.history.sightings import Sightings

GroupMessage = tuple[str, str]
START = "start"
SETTLING = ("ack", "nack")


class HandOut(NamedTuple):
    """One attempt, as its receive was answered. `receipt`, `until_ms`: None where the history lacks them."""

    operation: Operation
    row: Row
    receipt: str | None
    until_ms: int | None


class HandOuts:
    """`receive` asks for `group`, `max_reconsume_times` and returns rows, and for each of them `receipts`; and
    `until_ms`. `ack` and `nack` ask for `group`, `payloads`, and may say which `receipts`. A `fault` named
    `start` is the next life of the broker."""

    def __init__(self, sightings: Sightings) -> None:
        self._sightings = sightings
        self.of: dict[GroupMessage, list[HandOut]] = defaultdict(list)
        self.settled: dict[GroupMessage, list[Operation]] = defaultdict(list)
        """What may have ended attempts: all that has not failed."""
        self.most: dict[str, int] = {}
        """By group, after how many retries a message is a dead letter."""
        history = sightings.history
        starts = [fault.begun for fault in history.of("fault") if fault.request["fault"] == START]
        self._unanswered: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for receive in sorted(history.of("receive"), key=lambda operation: operation.ended):
            group: str = receive.request["group"]
            self.most[group] = receive.request["max_reconsume_times"]
            if receive.ok:
                self._enter(group, receive)
            elif receive.outcome == "unknown":
                # It may still be carried out, but not by a broker's next life.
                end = next((start for start in starts if start > receive.begun), NEVER)
                self._unanswered[group].append((receive.begun, end))
        for operation in history.of(*SETTLING):
            if operation.outcome != "failed":
                for payload in operation.request["payloads"]:
                    self.settled[operation.request["group"], payload].append(operation)

    def _enter(self, group: str, receive: Operation) -> None:
        receipts: list[Any] = receive.result.get("receipts") or [None] * len(receive.rows)
        for row, receipt in zip(receive.rows, receipts, strict=True):
            if row.payload is not None:
                until_ms = receive.result.get("until_ms")
                self.of[group, row.payload].append(HandOut(receive, row, receipt, until_ms))

    def lacking(self, key: GroupMessage, attempts: int, until: int) -> list[int]:
        """Which of the attempts from 0 on, of so many, nobody was answered with by then, though no receive
        without an answer may have had them."""
        there = {each.row.reconsume_times for each in self.of.get(key, ()) if each.operation.begun < until}
        missing = [count for count in range(attempts) if count not in there]
        sent = self._sightings.sent.get(key[1])
        begun = sent[0].operation.begun if sent else -1
        spans = self._unanswered.get(key[0], ())
        doubtful = sum(begin < until and end > begun for begin, end in spans)
        return missing if len(missing) > doubtful else []
