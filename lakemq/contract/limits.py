"""Numbers that the contract allows."""

from __future__ import annotations

OFFSET_MAX = 2**63 - 1
"""Of offsets and positions."""
NUMBER_MAX = 2**53
"""Of times in ms and of counts: what every reader of JSON takes as it is."""
