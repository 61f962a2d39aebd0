"""What the gateway has done, as plain numbers: the hot path only adds to them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Counters:
    """Totals since the process began. Bytes are of bodies in requests, of answers in pulls."""

    messages_in: int = 0
    bytes_in: int = 0
    messages_out: int = 0
    bytes_out: int = 0
    problems: dict[str, int] = field(default_factory=dict[str, int])

    def problem(self, code: str) -> None:
        """Count an error that was answered."""
        self.problems[code] = self.problems.get(code, 0) + 1
