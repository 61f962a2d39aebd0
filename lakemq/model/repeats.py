"""Things that are alike and come again and again: so many are let through, and the others are counted."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from enum import Enum, auto


class Seen(Enum):
    """What becomes of one."""

    LET_THROUGH = auto()
    LAST = auto()
    """It is let through, and those that follow it are counted."""
    COUNTED = auto()


class _Kind:
    __slots__ = ("since_s", "times")

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self.times = 0


class Repeats:
    """Of each kind so many in a window, which begins with its first; of so many kinds at once, as what is known of them
    takes memory. The clock never goes back."""

    def __init__(self, each_max: int, window_s: float, kinds_max: int) -> None:
        self.each_max, self.window_s, self._kinds_max = each_max, window_s, kinds_max
        self._kinds: OrderedDict[Hashable, _Kind] = OrderedDict()

    def note(self, kind: Hashable, now_s: float) -> Seen:
        """One more of that kind. `over` is asked before: else windows that are over hold on."""
        known = self._kinds.get(kind)
        if known is None:
            known = self._kinds[kind] = _Kind(now_s)
        known.times += 1
        if known.times < self.each_max:
            return Seen.LET_THROUGH
        return Seen.LAST if known.times == self.each_max else Seen.COUNTED

    def over(self, now_s: float) -> Iterator[tuple[Hashable, int]]:
        """The kinds whose window is over, or gives room to others, of which some were counted; and how many. Each is
        said once."""
        while self._kinds:
            kind, first = next(iter(self._kinds.items()))
            if now_s - first.since_s < self.window_s and len(self._kinds) < self._kinds_max:
                return
            del self._kinds[kind]
            if first.times > self.each_max:
                yield kind, first.times - self.each_max
