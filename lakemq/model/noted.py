"""What of many refusals is written down: a flood of them must not fill the log, and none is passed over in silence."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

from lakemq.model.token_bucket import TokenBucket, TokenBuckets, in_ms

EACH_S = 60.0
KEYS_MAX = 10_000
BURST = 200
PER_S = 20.0
WHO_BURST = 40
WHO_PER_S = 2.0
WHO_MAX = 10_000

What = TypeVar("What")
"""What tells of one."""


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


class _Kind(Generic[What]):
    """Since when `times` of it were counted, and the last of these."""

    __slots__ = ("since_s", "times", "what")

    def __init__(self, since_s: float) -> None:
        self.since_s = since_s
        self.times = 0
        self.what: What | None = None


class Sieve(Generic[What]):
    """Of each kind one in `each_s`; of all together so many at once, and so many a second; and of these a part for one
    who is refused: one alone doesn't take the others' room. What is counted is said with a later one; who has none
    looks for it with `due`."""

    def __init__(
        self, each_s: float = EACH_S, keys_max: int = KEYS_MAX, burst: int = BURST, per_s: float = PER_S
    ) -> None:
        self._each_s, self._keys_max = each_s, keys_max
        self._kinds: OrderedDict[Hashable, _Kind[What]] = OrderedDict()
        """In the order in which they were said last."""
        self._all = TokenBucket(burst, per_s)
        self._each = TokenBuckets(WHO_BURST, WHO_PER_S, WHO_MAX)
        self._missed = 0
        self._missed_what: What | None = None
        """The last of these of which anything is known."""

    def note(self, kind: Hashable, now_s: float, who: Hashable = None, what: What | None = None) -> Noted | None:
        """One more of that kind, of whom that is; None: it is counted, and said later. `what`: tells of it then."""
        known = self._kinds.get(kind)
        if known is not None and 0 <= now_s - known.since_s < self._each_s:
            known.times += 1
            known.what = what
            return None
        if not (self._each.take(who, now_s) and self._all.take_one(in_ms(now_s))):
            self._miss(1, what)
            return None
        times = 1 + (known.times if known is not None else 0)
        self._kinds[kind] = _Kind(now_s)
        self._kinds.move_to_end(kind)
        if len(self._kinds) > self._keys_max:
            _, oldest = self._kinds.popitem(last=False)
            self._miss(oldest.times, oldest.what)
        return Noted(times, self._take_missed())

    def due(self, now_s: float, *, ends: bool = False) -> list[tuple[What, Noted]]:
        """What was counted in an interval that is over, and nothing alike has come since to say it with: each with the
        last of its kind. Then what was missed, with the last of that. As many as there is room for; of what the others
        count a later call tells. `ends`: also what was counted in intervals that aren't over."""
        found: list[tuple[What, Noted]] = []
        while self._kinds:
            kind, known = next(iter(self._kinds.items()))
            if not ends and 0 <= now_s - known.since_s < self._each_s:
                break
            if known.what is None:  # nothing was counted, or nothing is known of it
                self._missed += known.times
                del self._kinds[kind]
                continue
            if not self._all.take_one(in_ms(now_s)):
                return found
            found.append((known.what, Noted(known.times, self._take_missed())))
            self._kinds[kind] = _Kind(now_s)
            self._kinds.move_to_end(kind)
        what = self._missed_what
        if self._missed and what is not None and self._all.take_one(in_ms(now_s)):
            found.append((what, Noted(1, self._take_missed() - 1)))
        return found

    def give_back(self, noted: Noted, what: What | None = None) -> None:
        """It could not be written after all."""
        self._miss(noted.times + noted.missed, what)

    def _miss(self, count: int, what: What | None) -> None:
        self._missed += count
        self._missed_what = self._missed_what if what is None else what

    def _take_missed(self) -> int:
        missed, self._missed, self._missed_what = self._missed, 0, None
        return missed
