"""Pure rules of the source: a stream's offset, and the tasks that read a range of the log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from pyspark.sql.datasource import InputPartition

MESSAGES_PER_PARTITION_MIN = 10_000
"""Ranges shorter than twice this stay whole: a task costs more than it would save."""

QueueBounds = dict[str, dict[int, int]]
"""Queue offsets by topic and queue."""


@dataclass(frozen=True)
class StreamOffset:
    """How far a stream has read: a position by broker, the batch's clock, and, where it began at
    queue offsets, those: they stay a filter on all that is read, however often it is restarted. `logs`: the id
    of each broker's log. `clocks`, of a stream with ticks: each broker's own clock, as it said last."""

    positions: Mapping[str, int]
    clock_ms: int
    begins: QueueBounds = field(default_factory=dict)
    logs: Mapping[str, str] = field(default_factory=dict)
    clocks: Mapping[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The same offset is the same text: Spark compares offsets as text."""
        content: dict[str, Any] = {
            "positions": dict(sorted(self.positions.items())),
            "clock_ms": self.clock_ms,
        }
        if self.begins:
            content["begins"] = {
                topic: {str(queue): at for queue, at in sorted(queues.items())}
                for topic, queues in sorted(self.begins.items())
            }
        if self.logs:
            content["logs"] = dict(sorted(self.logs.items()))
        if self.clocks:
            content["clocks"] = dict(sorted(self.clocks.items()))
        return content

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> StreamOffset:
        begins = {
            topic: {int(queue): at for queue, at in queues.items()}
            for topic, queues in content.get("begins", {}).items()
        }
        logs, clocks = dict(content.get("logs", {})), dict(content.get("clocks", {}))
        return StreamOffset(dict(content["positions"]), content["clock_ms"], begins, logs, clocks)

    def clock_of(self, broker: str) -> int:
        """What that broker's own clock said, 0 before it has said anything. A stream without ticks has only the batch's
        clock, which is that of the broker that is ahead of the others."""
        return self.clocks.get(broker, 0) if self.clocks else self.clock_ms


@dataclass
class LogPartition(InputPartition):
    """A range begin ≤ position < end of one broker's log, for one task.

    Rows of queues in `begins` below the offset there are left out, and of queues in `ends` those
    from the offset there on. `previous_ms` is the clock of the batch before, 0 for none. With
    `tick` there is also a row of just the clock. `broker_ms` is the broker's own clock, and `broker_before_ms` that of
    the batch before; 0: not known. With `pending` there are also the rows that the broker lists of what it has pending
    of these kinds, and is due at `due_from_ms ≤ t < due_to_ms`. The log must be `log_id`; empty: whichever it is.
    """

    broker: str
    address: str
    begin: int
    end: int
    clock_ms: int
    begins: QueueBounds
    ends: QueueBounds
    previous_ms: int = 0
    tick: bool = False
    log_id: str = ""
    broker_ms: int = 0
    broker_before_ms: int = 0
    pending: tuple[str, ...] = ()
    due_from_ms: int = 0
    due_to_ms: int = 0


def split(begin: int, end: int, partitions: int) -> list[tuple[int, int]]:
    """The range in at most `partitions` even parts that are not small; none when it is empty."""
    count = end - begin
    if count <= 0:
        return []
    parts = max(1, min(partitions, count // MESSAGES_PER_PARTITION_MIN))
    cuts = [begin + count * part // parts for part in range(parts + 1)]
    return list(pairwise(cuts))


def share(limit: int | None, brokers: int) -> int | None:
    """The part of a batch's limit that one of several brokers may fill."""
    return None if limit is None else max(1, limit // brokers)
