"""How many messages a queue has, by what a broker says of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def kept_in(queue: Mapping[str, Any]) -> int:
    """Between its first and its next offset. Of an older broker, which doesn't say it, it is as many as there are
    offsets: too many after a crash or a restore, which skip some."""
    return queue.get("messages", queue["max_offset"] - queue["min_offset"])
