"""How late the event loop comes round: what each request waits for before anything of its own is done."""

from __future__ import annotations

from lakemq.model.histogram import Histogram

BOUNDS_S = (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


class LoopLag(Histogram):
    """A histogram of how much later than planned something woke on the loop."""

    def __init__(self) -> None:
        super().__init__(BOUNDS_S)

    def note(self, value: float) -> None:
        """Something woke so many seconds later than it had planned; below 0: in time."""
        super().note(max(value, 0.0))
