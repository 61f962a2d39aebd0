"""What groups were not handed out, as it is neither in the log nor in the lake any more: counted and told."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Iterable

from lakemq.storage.slices.holes import Gap, Range
from lakemq.storage.state.topics import Queue

logger = logging.getLogger(__name__)

PLACES_MAX = 10_000
GROUPS_MAX = 1_000
GAPS_MAX = 100


class Gaps:
    """The gaps that groups have come to since the process began. Each is told once, however often a group
    looks there before it is handed what comes after."""

    def __init__(self) -> None:
        self.messages = 0
        """How many offsets were passed over."""
        self._passed: OrderedDict[tuple[str, str, int, int], int] = OrderedDict()
        self._by_group: OrderedDict[str, deque[Gap]] = OrderedDict()

    def note(self, group: str, gap: Gap, resets: int) -> None:
        """The group, whose place was reset so often, passes over the gap."""
        key = group, gap.topic, gap.queue_id, resets
        passed = self._passed.pop(key, 0)
        self._passed[key] = max(passed, gap.end)
        while len(self._passed) > PLACES_MAX:
            self._passed.popitem(last=False)
        if gap.end <= passed:
            return
        gap = gap._replace(begin=max(gap.begin, passed))
        self.messages += gap.end - gap.begin
        gaps = self._by_group.setdefault(group, deque(maxlen=GAPS_MAX))
        if gaps and gaps[-1][:2] == gap[:2] and gaps[-1].end == gap.begin:
            gaps.append(gap._replace(begin=gaps.pop().begin))
        else:
            gaps.append(gap)
        self._by_group.move_to_end(group)
        while len(self._by_group) > GROUPS_MAX:
            self._by_group.popitem(last=False)
        logger.warning(
            "group %s skips offsets %d to %d of %s queue %d: they are in neither the log nor the lake",
            *(group, gap.begin, gap.end - 1, gap.topic, gap.queue_id),
        )

    def note_all(self, group: str, queue: Queue, holes: Iterable[Range], resets: int) -> list[Gap]:
        """The group passes over what was in the holes; the gaps that these are: what was never given to a message is
        none."""
        given = (each for hole in holes for each in queue.given_between(*hole))
        gaps = [Gap(*queue.key, begin, end) for begin, end in given]
        for gap in gaps:
            self.note(group, gap, resets)
        return gaps

    def of(self, group: str) -> list[Gap]:
        """The last of the group's gaps."""
        return list(self._by_group.get(group, ()))

    def forget(self, group: str) -> None:
        """The group is gone."""
        self._by_group.pop(group, None)
