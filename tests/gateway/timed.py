"""A gateway whose time passes when a test says so."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from lakemq.testing import start_gateway
from tests.gateway.http_client import connect
from tests.gateway.routing.asking import now_ms


class Timed:
    """One whose clock, beside going on, is set ahead: what is due in an hour comes when the hour is over, and not
    before, however slow the machine is. As no query runs, it decides soon itself. `http` is a client of it."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self._clock, self._ahead_ms = folder / "clock", 0
        self._clock.write_text(f"{0:20}")
        settings = {"routing__clock_confirm_ms": 0, "routing__grace_ms": 100, **options}
        self.process = start_gateway(folder / "data", self._clock, **settings)
        self.http = connect(self.process)

    def now_ms(self) -> int:
        """Its clock."""
        return now_ms() + self._ahead_ms

    def pass_ms(self, ms: int) -> None:
        """Let so much time pass at once."""
        self._ahead_ms += ms
        with self._clock.open("r+") as file:
            file.write(f"{self._ahead_ms:20}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.http.close()
        self.process.stop()
