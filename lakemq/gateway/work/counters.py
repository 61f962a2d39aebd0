"""What the gateway has done, as plain numbers: the hot path only adds to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Counters:
    """Totals since the process began. Bytes are of bodies in requests, of answers in pulls. `cut`: connections
    that were closed on a client that was too slow. `unsent_bytes()`: of answers that clients have not taken yet.
    `ahead_bytes()`: of requests that were sent before the answers to others."""

    messages_in: int = 0
    bytes_in: int = 0
    messages_out: int = 0
    bytes_out: int = 0
    cut: int = 0
    unsent_bytes: Callable[[], int] = int
    ahead_bytes: Callable[[], int] = int
    problems: dict[str, int] = field(default_factory=dict[str, int])

    def took(self, messages: int, size: int) -> None:
        """Count messages whose bodies have so many bytes."""
        self.messages_in += messages
        self.bytes_in += size

    def problem(self, code: str) -> None:
        """Count an error that was answered."""
        self.problems[code] = self.problems.get(code, 0) + 1
