"""What sinks have committed, as the log's records make it.

A sink's batch is committed by a record, a JSON message in `SINK_TOPIC`: from then on its parts are the
log's to store, each in one frame with a record that says so. So a part is stored, or it is left: nothing
between. Each record says itself under which condition it counts, so two commits of one batch are one.
docs/lake.md, "The sink", has the whole protocol.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakemq.model.names import SINK_TOPIC
from lakemq.storage.segment.content import Content
from lakemq.storage.segment.frame import Meta

COMMIT, PART, FORGET = "commit", "part", "forget"
"""The records' `op`."""
COUNTED = "counted"
"""A part that no batch has: by it a sink gets back what it had counted."""


@dataclass
class Sink:
    """A sink: its last committed batch, and which parts of that are `left` to be stored.

    `progress` is what the committer wants to find again. `once`: it has one batch, and is forgotten some
    time after. `messages` counts what was stored, of all batches; `dropped` what its topic no longer took.
    `changed_ms`: when the last record of it was stored. `tokens` names the files of the parts that are left, by the
    parts' names; those of a batch that an older lakemq committed are lacking there.
    """

    batch: int
    left: list[str]
    progress: str = ""
    once: bool = False
    messages: int = 0
    dropped: int = 0
    changed_ms: int = 0
    tokens: dict[str, str] = field(default_factory=dict[str, str])


class Before(NamedTuple):
    """What a commit replaced, as long as none of its parts is stored: `sink` as `dump` has one; None: there was none.
    `end`: that of the commit's frame."""

    end: int
    sink: dict[str, Any] | None


@dataclass
class SinkState:
    """All sinks of a log, by name. `before` has those whose last batch can be taken back."""

    by_name: dict[str, Sink] = field(default_factory=dict[str, Sink])
    before: dict[str, Before] = field(default_factory=dict[str, Before])

    def apply(self, meta: Meta, content: Content) -> None:
        """Carry out the sinks' records among the frame's rows."""
        for run in meta.runs:
            if run.topic == SINK_TOPIC:
                for body in content.values("body", run.row, run.count):
                    self._apply(json.loads(body), meta.first_position + meta.count, meta.store_time_ms)

    def _apply(self, record: dict[str, Any], end: int, store_time_ms: int) -> None:
        op, name = record["op"], record["sink"]
        sink = self.by_name.get(name)
        if op == COMMIT:
            if record.get("new") and sink is not None and sink.once and not sink.left:
                # Its committer had forgotten it (`expire`, `make_room`), without a record of that.
                del self.by_name[name]
                sink = None
            if not self.takes(name, record["batch"]):
                return
            self.before[name] = Before(end, None if sink is None else _dumped(sink))
            sink = sink or Sink(-1, [])
            sink.batch, sink.left = record["batch"], list(record["parts"])
            sink.progress, sink.once = record["progress"], record["once"]
            sink.tokens = dict(record.get("tokens", {}))
            self.by_name[name] = sink
            if not sink.left:
                del self.before[name]
        elif op == PART and sink is not None and record["part"] in sink.left:
            self.before.pop(name, None)
            sink.left.remove(record["part"])
            sink.tokens.pop(record["part"], None)
            sink.messages += record["messages"]
            sink.dropped += record["dropped"]
        elif op == FORGET:
            self.by_name.pop(name, None)
            self.before.pop(name, None)
            return
        if sink is not None:
            sink.changed_ms = store_time_ms

    def takes(self, name: str, batch: int) -> bool:
        """Whether a commit of this batch counts: it is the sink's next, and the one before is stored."""
        sink = self.by_name.get(name)
        return sink is None or (batch > sink.batch and not sink.left)

    def taking_back(self, name: str) -> list[dict[str, Any]]:
        """The records that have the sink, which is in `before`, be what it was. They belong in one frame. Any lakemq
        knows them, so no other record says it: one that passed over that would take the batch for committed."""
        was = self.before[name].sink
        forgotten = {"op": FORGET, "sink": name}
        if was is None:
            return [forgotten]
        batch, messages, dropped = was["batch"], was["messages"], was["dropped"]
        known = {"parts": [COUNTED], "progress": was["progress"], "once": was["once"], "tokens": {}, "new": True}
        counted = {"part": COUNTED, "topic": "", "messages": messages, "dropped": dropped, "why": None}
        return [
            forgotten,
            {"op": COMMIT, "sink": name, "batch": batch, **known},
            {"op": PART, "sink": name, "batch": batch, **counted},
        ]

    def make_room(self, once: bool, sinks_max: int) -> bool:
        """Whether there is room for one more sink. Those of one batch never take it from others: of them the
        oldest is forgotten early, as its batch will hardly come again."""
        alike = [name for name, sink in self.by_name.items() if sink.once == once]
        if len(alike) < sinks_max:
            return True
        oldest = next((name for name in alike if not self.by_name[name].left), None)
        if not once or oldest is None:
            return False
        del self.by_name[oldest]
        return True

    def unfinished(self) -> Iterator[str]:
        """The sinks with parts that are left."""
        return (name for name, sink in self.by_name.items() if sink.left)

    def tokens(self) -> Iterator[str]:
        """The files of all parts that are left."""
        return (token for name in self.unfinished() for token in self.by_name[name].tokens.values())

    def is_over(self, name: str, batch: int, part: str, token: str) -> bool:
        """Whether this file of a part is needed no more: the batch is committed, and it isn't one of those left."""
        sink = self.by_name.get(name)
        if sink is None or batch > sink.batch:
            return False
        return batch < sink.batch or part not in sink.left or sink.tokens.get(part, token) != token

    def expire(self, before_ms: int) -> None:
        """Forget sinks of one batch that was stored before."""
        for name, sink in list(self.by_name.items()):
            if sink.once and not sink.left and sink.changed_ms < before_ms:
                del self.by_name[name]

    def dump(self) -> dict[str, Any]:
        """All of it as JSON values, for a state frame or a snapshot."""
        return {name: _dumped(sink) for name, sink in self.by_name.items()}

    def dump_before(self) -> dict[str, Any]:
        """`before` likewise, by itself: those who don't know it yet read the rest."""
        return {name: list(before) for name, before in self.before.items()}

    def restore(self, dumped: dict[str, Any], before: dict[str, Any]) -> None:
        """Become what `dump` and `dump_before` said."""
        self.by_name = {name: Sink(**values) for name, values in dumped.items()}
        self.before = {name: Before(*values) for name, values in before.items()}


def _dumped(sink: Sink) -> dict[str, Any]:
    return {**vars(sink), "left": sink.left.copy(), "tokens": sink.tokens.copy()}
