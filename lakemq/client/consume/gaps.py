"""What a consumer is not handed, as it is neither in the broker's log nor in its lake any more: told."""

from __future__ import annotations

import logging
from collections.abc import Callable

from lakemq.model.message_queue import MessageQueue

logger = logging.getLogger("lakemq.client")

OnGap = Callable[[MessageQueue, int, int], None]


class Gaps:
    """Tells of each gap by a warning in the log and, where there is one, a function of the user's."""

    def __init__(self, on_gap: OnGap | None) -> None:
        self._on_gap = on_gap

    def note(self, queue: MessageQueue, begin: int, end: int) -> None:
        """Of the queue the next offset was to be `begin`, and it is `end`. What the user's function raises
        is logged."""
        logger.warning("%s has no offset %d any more: going on with %d", queue, begin, end)
        if self._on_gap is not None:
            try:
                self._on_gap(queue, begin, end)
            except Exception:
                logger.exception("on_gap failed")
