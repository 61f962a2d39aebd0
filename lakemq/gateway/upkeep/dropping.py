"""What becomes of a log that is full, where nothing can leave it: `storage.when_full = "drop_oldest"`."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from lakemq.model.errors import LakemqError
from lakemq.storage.log.commit_log import CommitLog
from lakemq.storage.log.letting_go import let_go
from lakemq.storage.segment.segment import Segment

logger = logging.getLogger(__name__)


class Dropping:
    """Drops the oldest segments of one broker's log where there is no room, and says so. Lives on the event loop.

    What waits in them moves on first, as far as it can: scheduled messages, unless they are most of a segment, as
    they would take the room that it leaves. What can't is settled afterwards, as lost; a crash in between leaves
    that to be done.
    """

    def __init__(
        self,
        log: CommitLog,
        clear_below: Callable[[int], Awaitable[object]],
        settle_lost: Callable[[], Awaitable[object]],
    ) -> None:
        """`clear_below` a position: schedule anew what waits there; `settle_lost`: end what waited in what is lost."""
        self._log = log
        self._clear_below = clear_below
        self._settle_lost = settle_lost

    async def drop(self) -> None:
        """Drop as many segments as must go, having looked for what may go without loss; then settle what waited in
        any that was ever dropped. Raises `OSError`, `LakemqError`."""
        retention, log = self._log.retention, self._log
        # No more than was lacking at first: a file that somebody reads takes its room for a while yet.
        lacking = retention.lacking()
        while lacking > 0 and (oldest := retention.to_drop()) is not None:
            await self._move_on(oldest)
            if retention.to_drop() is not oldest:
                break  # much may have changed meanwhile
            lacking -= oldest.size
            waiting = log.routing.waiting_between(oldest.base_position, oldest.end_position)
            begin, end = retention.drop(log.state)
            if begin < end:
                _say(begin, end, oldest, waiting)
            await let_go(log)  # so that it takes writes again
        if retention.dropped.ranges and log.unwritable is None:
            await self._settle_lost()

    async def _move_on(self, oldest: Segment) -> None:
        """Schedule anew what waits in the segment, which is about to go."""
        delays, end = self._log.routing.delays, oldest.end_position
        waiting = delays.rank(end - 1) if delays else 0
        if not waiting or 2 * waiting > end - oldest.base_position or self._log.refusal() is not None:
            return
        try:
            await self._clear_below(end)
        except (LakemqError, OSError) as error:
            logger.warning("can't move scheduled messages to the log's end: %s", error)

    def degraded(self) -> list[str]:
        """That messages were dropped, as long as the lake has not come past them."""
        dropped, log = self._log.retention.dropped, self._log
        reached = max(log.retention.certain_position, log.compacted_position)
        ranges = [(begin, end) for begin, end in dropped.ranges if end > reached]
        if not ranges:
            return []
        count, last = sum(end - begin for begin, end in ranges), ranges[-1][1] - 1
        what = f"{count} positions up to {last} were dropped, which the lake does not hold"
        return [f"the log was full: {what} (storage.when_full)"]


def _say(begin: int, end: int, segment: Segment, waiting: dict[str, int]) -> None:
    lost = "".join(f", {count} {kind}" for kind, count in waiting.items())
    logger.error(
        "the log is full: positions %d to %d, which the lake does not hold, are dropped with segment %s "
        "(storage.when_full)%s",
        *(begin, end - 1, segment.path.name, f"; with them{lost[1:]}" if lost else ""),
    )
