"""The seam through which a reader of the log gets what a damaged segment held."""

from __future__ import annotations

from typing import Protocol

from lakemq.model.errors import LogDamaged
from lakemq.storage.segment.segment import Frame, Segment


class Fallback(Protocol):
    """Where messages are whose segment is damaged. All calls in any thread."""

    def note(self, segment: Segment, why: LogDamaged) -> None:
        """The segment is damaged."""
        ...

    def frames(self, begin: int, end: int, why: LogDamaged) -> list[Frame]:
        """The messages at positions `begin ≤ p < end`, ascending; those that are not there are gone for good.
        Raises `why` where that can't be said."""
        ...
