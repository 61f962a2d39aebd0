"""What groups were not handed out, as it is neither in the log nor in the lake any more: counted and told."""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from typing import NamedTuple

logger = logging.getLogger(__name__)

PLACES_MAX = 10_000
GROUPS_MAX = 1_000
GAPS_MAX = 100


class Gap(NamedTuple):
    """Offsets `begin` ≤ o < `end` of a queue that hold no message any more."""

    topic: str
    queue_id: int
    begin: int
    end: int


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
        self.messages += gap.end - max(gap.begin, passed)
        gaps = self._by_group.setdefault(group, deque(maxlen=GAPS_MAX))
        gaps.append(gap)
        self._by_group.move_to_end(group)
        while len(self._by_group) > GROUPS_MAX:
            self._by_group.popitem(last=False)
        logger.warning(
            "group %s passes over offsets %d to %d of %s queue %d: they are neither in the log nor in the lake",
            *(group, gap.begin, gap.end - 1, gap.topic, gap.queue_id),
        )

    def of(self, group: str) -> list[Gap]:
        """The last of the group's gaps."""
        return list(self._by_group.get(group, ()))

    def forget(self, group: str) -> None:
        """The group is gone."""
        self._by_group.pop(group, None)
