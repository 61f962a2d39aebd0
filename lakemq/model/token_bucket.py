"""So many at once, and so many a second: of one, or of each of many. A bucket fills with time, up to a burst, and what
is taken leaves it.

Levels are whole millionths, times whole milliseconds: nothing is rounded on the way, so a promise is kept exactly.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Self

_MILLIONTHS = 1_000_000


class TokenBucket:
    """Full at first. A clock that goes back takes nothing from it and gives nothing to it; it fills from there on.
    `whole`: what goes next takes one, else it goes where there is anything left."""

    __slots__ = ("_at_ms", "_least", "_level", "_most", "_per_ms")

    def __init__(self, burst: float, per_s: float, now_ms: int = 0, *, whole: bool = True) -> None:
        self._least = _MILLIONTHS if whole else 1
        self._per_ms = self._most = 0
        self._at_ms = now_ms
        self._set(burst, per_s)
        self._level = self._most

    def _set(self, burst: float, per_s: float) -> None:
        self._per_ms = max(round(per_s * 1_000), 1)  # thousandths a second are millionths a millisecond
        self._most = max(round(burst * _MILLIONTHS), self._least)

    def change(self, burst: float, per_s: float, now_ms: int) -> Self:
        """Fill otherwise from now on. What is in it stays, up to the new burst; a debt does too."""
        self._fill(now_ms)
        self._set(burst, per_s)
        self._level = min(self._level, self._most)
        return self

    def _fill(self, now_ms: int) -> None:
        if now_ms > self._at_ms:
            self._level = min(self._level + (now_ms - self._at_ms) * self._per_ms, self._most)
        self._at_ms = now_ms

    def wait_ms(self, now_ms: int) -> int:
        """How long the next one has to wait; 0: it goes. If nobody takes anything meanwhile, it goes then."""
        self._fill(now_ms)
        return max(-((self._level - self._least) // self._per_ms), 0)

    def take(self, amount: int, now_ms: int) -> None:
        """So much is taken, whether there is so much or not: what there is not is a debt, which is paid before
        anything else goes."""
        self._fill(now_ms)
        self._level -= amount * _MILLIONTHS

    def take_one(self, now_ms: int) -> bool:
        """Take one, if there is one."""
        if self.wait_ms(now_ms):
            return False
        self._level -= _MILLIONTHS
        return True

    def is_full(self, now_ms: int) -> bool:
        """Whether it is as a new one, or nobody knows, as the clock went back."""
        return now_ms < self._at_ms or self._level + (now_ms - self._at_ms) * self._per_ms >= self._most


def in_ms(now_s: float) -> int:
    """The same time, as buckets take it."""
    return round(now_s * 1_000)


class TokenBuckets:
    """One for each key, of `keys_max` keys. A key is forgotten once its bucket is full again. As long as none is,
    newcomers share one more: however many there are, nobody's bucket is filled by being forgotten."""

    def __init__(self, burst: float, per_s: float, keys_max: int) -> None:
        self._burst, self._per_s, self._keys_max = burst, per_s, keys_max
        self._buckets: OrderedDict[Hashable, TokenBucket] = OrderedDict()
        self._newcomers = TokenBucket(burst, per_s)

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: Hashable, now_s: float) -> bool:
        """Take one of the key's, if there is one."""
        now_ms = in_ms(now_s)
        bucket = self._buckets.pop(key, None)
        if bucket is None:
            if len(self._buckets) >= self._keys_max and not self._forget_one(now_ms):
                return self._newcomers.take_one(now_ms)
            bucket = TokenBucket(self._burst, self._per_s, now_ms)
        self._buckets[key] = bucket
        return bucket.take_one(now_ms)

    def _forget_one(self, now_ms: int) -> bool:
        """Forget the one that nobody took from for longest, if that changes nothing."""
        key, oldest = next(iter(self._buckets.items()))
        if not oldest.is_full(now_ms):
            return False
        del self._buckets[key]
        return True
