"""So many at once, and so many a second: of one, or of each of many."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable


class TokenBucket:
    """Full at first. A clock that goes back takes nothing from it and gives nothing to it."""

    __slots__ = ("_burst", "_left", "_per_s", "_since_s")

    def __init__(self, burst: float, per_s: float, now_s: float = 0.0) -> None:
        self._burst, self._per_s = burst, per_s
        self._left, self._since_s = float(burst), now_s

    def take(self, now_s: float) -> bool:
        """Take one, if there is one."""
        self._left = min(self._left + max(now_s - self._since_s, 0) * self._per_s, self._burst)
        self._since_s = now_s
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def is_full(self, now_s: float) -> bool:
        """Whether it is as a new one, or nobody knows, as the clock went back."""
        return now_s < self._since_s or self._left + (now_s - self._since_s) * self._per_s >= self._burst


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
        bucket = self._buckets.pop(key, None)
        if bucket is None:
            if len(self._buckets) >= self._keys_max and not self._forget_one(now_s):
                return self._newcomers.take(now_s)
            bucket = TokenBucket(self._burst, self._per_s, now_s)
        self._buckets[key] = bucket
        return bucket.take(now_s)

    def _forget_one(self, now_s: float) -> bool:
        """Forget the one that nobody took from for longest, if that changes nothing."""
        key, oldest = next(iter(self._buckets.items()))
        if not oldest.is_full(now_s):
            return False
        del self._buckets[key]
        return True
