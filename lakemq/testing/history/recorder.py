"""What clients write their history with. Any thread may."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from lakemq.testing.history.operation import History, Operation, Outcome, apply_event


class Recorder:
    """A history while it is made; with `path`, also as JSON lines there."""

    def __init__(self, path: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._operations: dict[int, Operation] = {}
        self._events = 0
        self._file: TextIO | None = None if path is None else path.open("w", encoding="utf-8")

    def invoke(self, client: str, kind: str, **request: Any) -> int:
        """Take note of what is about to be asked for; returns the operation's number."""
        with self._lock:
            number = len(self._operations)
            self._enter({"n": number, "event": "invoked", "client": client, "kind": kind, "request": request})
        return number

    def end(self, number: int, outcome: Outcome, **result: Any) -> None:
        """Take note of how it ended."""
        with self._lock:
            self._enter({"n": number, "event": outcome, "result": result})

    def ok(self, number: int, **result: Any) -> None:
        """It was done."""
        self.end(number, "ok", **result)

    def note(self, client: str, kind: str, **request: Any) -> None:
        """Take note of something that takes no time: a fault that was made."""
        self.ok(self.invoke(client, kind, **request))

    @property
    def events(self) -> int:
        """How many beginnings and ends have been written so far."""
        return self._events

    def history(self) -> History:
        """What has been written so far."""
        with self._lock:
            return History(self._operations.values())

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.close()

    def _enter(self, event: dict[str, Any]) -> None:
        event["ms"] = time.monotonic_ns() / 1e6
        apply_event(self._operations, self._events, event)
        self._events += 1
        if self._file is not None:
            self._file.write(json.dumps(event, separators=(",", ":")) + "\n")
