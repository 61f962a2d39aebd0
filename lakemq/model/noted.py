"""What of many refusals is written down: a flood of them must not fill the log, and none is passed over in silence."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import NamedTuple

from lakemq.model.token_bucket import TokenBucket, TokenBuckets, in_ms

EACH_S = 60.0
KEYS_MAX = 10_000
BURST = 200
PER_S = 20.0
WHO_BURST = 40
WHO_PER_S = 2.0
WHO_MAX = 10_000


class Noted(NamedTuple):
    """One is to be written: alike ones came `times` since the last of the kind was, this one too, and `missed` of
    others are written nowhere else."""

    times: int
    missed: int

    @property
    def text(self) -> str:
        """What is said behind one that is written; empty where it is the only one."""
        said = f" ({self.times} times since it was last said)" if self.times > 1 else ""
        return f"{said} ({self.missed} others were not said)" if self.missed else said


class _Kind:
    __slots__ = ("since_s", "times")

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self.times = 0


class Sieve:
    """Of each kind one in `each_s`; of all together so many at once, and so many a second; and of these a part for one
    who is refused: one alone doesn't take the others' room."""

    def __init__(
        self, each_s: float = EACH_S, keys_max: int = KEYS_MAX, burst: int = BURST, per_s: float = PER_S
    ) -> None:
        self._each_s, self._keys_max = each_s, keys_max
        self._kinds: OrderedDict[Hashable, _Kind] = OrderedDict()
        self._all = TokenBucket(burst, per_s)
        self._each = TokenBuckets(WHO_BURST, WHO_PER_S, WHO_MAX)
        self._missed = 0

    def note(self, kind: Hashable, now_s: float, who: Hashable = None) -> Noted | None:
        """One more of that kind, of whom that is; None: it is counted, and said with a later one."""
        known = self._kinds.get(kind)
        if known is not None and 0 <= now_s - known.since_s < self._each_s:
            known.times += 1
            return None
        if not (self._each.take(who, now_s) and self._all.take_one(in_ms(now_s))):
            self._missed += 1
            return None
        times = 1 + (known.times if known is not None else 0)
        self._kinds[kind] = _Kind(now_s)
        self._kinds.move_to_end(kind)
        if len(self._kinds) > self._keys_max:
            _, oldest = self._kinds.popitem(last=False)
            self._missed += oldest.times
        missed, self._missed = self._missed, 0
        return Noted(times, missed)

    def give_back(self, noted: Noted) -> None:
        """It could not be written after all."""
        self._missed += noted.times + noted.missed
