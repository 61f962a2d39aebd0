"""One operation of a client, and a history of them, which is kept as JSON lines.

A line is an event: `{"n": 7, "event": "invoked", "client", "kind", "request": {…}, "ms"}`, later
`{"n": 7, "event": "ok | failed | unknown", "result": {…}, "ms"}`. The order of the lines is the order in
which things happened. `unknown` (or no end at all): it may have been done or not, now or later.
`failed`: it was not done, and never will be.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

Outcome = Literal["ok", "failed", "unknown"]
NEVER = 2**62
"""The time of an end that did not come: after everything."""


class Row(NamedTuple):
    """A message as a client saw it. `payload` None: its bytes are not those of any payload."""

    topic: str
    queue_id: int
    queue_offset: int
    position: int
    payload: str | None
    store_time_ms: int | None = None
    message_id: str | None = None
    reconsume_times: int = 0


@dataclass
class Operation:
    """`begun` and `ended` are places in the history's order; `begun_ms` and `ended_ms` are of a clock
    that never goes back. `rows`: the messages in its result."""

    number: int
    client: str
    kind: str
    request: dict[str, Any]
    begun: int
    begun_ms: float
    ended: int = NEVER
    ended_ms: float = float(NEVER)
    outcome: Outcome = "unknown"
    result: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def ok(self) -> bool:
        """Whether it was done, for certain."""
        return self.outcome == "ok"

    @property
    def rows(self) -> list[Row]:
        """The messages it returned."""
        return [Row(*row) for row in self.result.get("rows", ())]

    def before(self, other: Operation) -> bool:
        """Whether it had ended before the other one began."""
        return self.ended < other.begun


class History:
    """All operations of a run, in the order in which they began."""

    def __init__(self, operations: Iterable[Operation] = ()) -> None:
        self.operations = sorted(operations, key=lambda operation: operation.begun)

    def of(self, *kinds: str) -> Iterator[Operation]:
        """The operations of these kinds."""
        return (operation for operation in self.operations if operation.kind in kinds)

    def done(self, *kinds: str) -> Iterator[Operation]:
        """Those of these kinds that were done, for certain."""
        return (operation for operation in self.of(*kinds) if operation.ok)


def read_history(path: Path) -> History:
    """The history that a `Recorder` wrote; a last line that was cut off by a crash is left out."""
    operations: dict[int, Operation] = {}
    with path.open(encoding="utf-8") as lines:
        for at, line in enumerate(lines):
            if line.endswith("\n"):
                apply_event(operations, at, json.loads(line))
    return History(operations.values())


def apply_event(operations: dict[int, Operation], at: int, event: dict[str, Any]) -> None:
    """Enter one event, the `at`-th of the history."""
    number = event["n"]
    if event["event"] == "invoked":
        operations[number] = Operation(number, event["client"], event["kind"], event["request"], at, event["ms"])
        return
    operation = operations[number]
    operation.outcome, operation.result = event["event"], event["result"]
    if operation.outcome != "unknown":
        operation.ended, operation.ended_ms = at, event["ms"]
