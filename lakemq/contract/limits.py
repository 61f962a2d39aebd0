"""Numbers that the contract allows."""

from __future__ import annotations

OFFSET_MAX = 2**63 - 1
"""Of offsets and positions."""
NUMBER_MAX = 2**53
"""Of times in ms and of counts: what every reader of JSON takes as it is."""
TIMES_MAX = 64
"""Of so many queues of a topic it is told since when they have messages: of each the lake may have to be read."""
