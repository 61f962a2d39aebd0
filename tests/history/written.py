"""Histories that tests write by hand."""

from __future__ import annotations

from typing import Any

from lakemq.testing.history import Finding, Kind, Recorder, check


class Run:
    """A history that a test writes, one operation after the other."""

    def __init__(self) -> None:
        self.recorder = Recorder()

    def do(self, kind: str, *rows: list[Any], client: str = "c", outcome: str = "ok", **fields: Any) -> int:
        results = {name.removeprefix("r_"): fields.pop(name) for name in list(fields) if name.startswith("r_")}
        number = self.recorder.invoke(client, kind, **fields)
        if outcome == "ok":
            self.recorder.ok(number, rows=list(rows), **results)
        elif outcome == "failed":
            self.recorder.end(number, "failed", **results)
        return number

    def produce(self, *rows: list[Any], payloads: list[str] | None = None, **fields: Any) -> int:
        names = [row[4] for row in rows] if payloads is None else payloads
        request: dict[str, Any] = {"topic": "t", "ack": "sync", "payloads": names, **fields}
        return self.do("produce", *rows, **request)

    def receive(self, *rows: list[Any], **fields: Any) -> int:
        request: dict[str, Any] = {"group": "g", "max_reconsume_times": 3, **fields}
        return self.do("receive", *rows, **request)

    def scan(self, *rows: list[Any], **fields: Any) -> int:
        end = max((row[3] + 1 for row in rows), default=0)
        request: dict[str, Any] = {"begin": 0, "r_end": end, **fields}
        return self.do("scan", *rows, **request)

    def cut(self) -> None:
        self.do("fault", fault="power cut")

    def check(self) -> list[Finding]:
        return check(self.recorder.history())

    def assert_found(self, kind: Kind, *operations: int) -> None:
        """Just this was found, and these prove it."""
        (finding,) = self.check()
        assert (finding.kind, finding.operations) == (kind, operations), finding
        assert str(finding).startswith(kind)


def at(position: int, payload: str | None, topic: str = "t", offset: int | None = None, **fields: Any) -> list[Any]:
    """A row of queue 0."""
    row = [topic, 0, position if offset is None else offset, position, payload]
    return [*row, fields.get("ms"), fields.get("id"), fields.get("times", 0)]
