"""What a server's connections have done, as plain numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lakemq.web.durations import Durations


@dataclass(slots=True)
class WebCounters:
    """Totals since the process began. `cut`: connections that were closed on a client that was too slow,
    or by TLS sent more records without data than anybody needs.
    `handshakes_failed`: of TLS, such as came to nothing. `unsent_bytes()`: of answers that clients have not taken yet.
    `ahead_bytes()`: of requests that were sent before the answers to others.
    `connections()`: that are open. `certificate_end_s()`: until when the server's certificate is valid, in seconds
    since 1970; None: it has none, or that isn't known."""

    cut: int = 0
    handshakes_failed: int = 0
    unsent_bytes: Callable[[], int] = int
    ahead_bytes: Callable[[], int] = int
    connections: Callable[[], int] = int
    certificate_end_s: Callable[[], float | None] = lambda: None
    problems: dict[str, int] = field(default_factory=dict[str, int])
    durations: Durations = field(default_factory=Durations)

    def problem(self, code: str) -> None:
        """Count an error that was answered."""
        self.problems[code] = self.problems.get(code, 0) + 1
