"""How much one request looks through for the messages it wants, and what of that the event loop does itself."""

from __future__ import annotations

from collections.abc import Sequence

from lakemq.gateway.filter.selector import Selector
from lakemq.storage.segment.slice import Slice

SCANNED_MAX = 65_536
"""So many messages of a queue are looked at in one go."""
SCAN_STEP = 4_096
SCAN_S_MAX = 1.0
"""So long a request selects. Then it is answered, or goes on after others."""
ROW_BYTES = 64
LIGHT_ROWS = 200
LIGHT_BYTES = 64 * 1024
"""Of an answer as JSON: that is a matter of milliseconds."""
LIGHT_WORK = 2_000_000
"""Bytes times characters of the condition: so much takes the slowest of patterns 20 ms."""


def rows_and_bytes(slices: Sequence[Slice]) -> tuple[int, int]:
    """How many messages these are, and about how many bytes of memory."""
    rows = sum([part.count for part in slices])
    return rows, sum([part.frame.content.memory_bytes * part.count // part.frame.content.count for part in slices])


def is_light(selector: Selector, rows: int, size: int) -> bool:
    """Whether nobody notices when the loop itself selects of so many messages with so many bytes."""
    return (size + ROW_BYTES * rows) * selector.characters <= LIGHT_WORK
