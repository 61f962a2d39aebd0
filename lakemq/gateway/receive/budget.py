"""How much one receive takes, and how long it looks."""

from __future__ import annotations

from lakemq.gateway.filter.scan import SCAN_S_MAX, SCANNED_MAX
from lakemq.storage.segment.slice import Slice


class Budget:
    """How many messages, and about how many bytes of memory, a receive may still take; and for how long it
    may look for them."""

    __slots__ = ("bytes_left", "messages_left", "seconds_left")

    def __init__(self, messages: int, bytes_max: int) -> None:
        self.messages_left = messages
        self.bytes_left = bytes_max
        self.seconds_left = SCAN_S_MAX

    @property
    def is_late(self) -> bool:
        """Whether others come first now. Each queue is looked at a little even so: else some never would be."""
        return self.seconds_left <= 0

    @property
    def is_spent(self) -> bool:
        """Whether there is room for no more."""
        return self.messages_left <= 0 or self.bytes_left <= 0

    def spend(self, parts: list[Slice]) -> None:
        """These were chosen."""
        for part in parts:
            self.messages_left -= part.count
            self.bytes_left -= part.frame.content.memory_bytes * part.count // max(part.frame.content.count, 1)


def goes_on(budget: Budget, scanned: int, *, may_be_late: bool = False) -> bool:
    """Whether a receive that has looked at so many messages of a queue looks at more."""
    if budget.is_spent or scanned >= SCANNED_MAX:
        return False
    return may_be_late or not (scanned and budget.is_late)
