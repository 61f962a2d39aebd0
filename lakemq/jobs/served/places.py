"""How many statements are under way: of all together, and of each who asks."""

from __future__ import annotations

from collections import Counter
from threading import Lock

from lakemq.model.errors import Busy, FlowControl
from lakemq.settings import SqlHttp


class Places:
    """Those of one server. For any thread."""

    def __init__(self, limits: SqlHttp) -> None:
        self._limits = limits
        self._taken: Counter[str] = Counter()
        self._lock = Lock()

    def take(self, who: str) -> None:
        """Have one of `who`. Raises `FlowControl` where he has all of his, `Busy` where there is none."""
        with self._lock:
            if self._taken[who] >= self._limits.user_statements_max:
                raise FlowControl(
                    f"{self._taken[who]} statements of yours are under way (sql_http.user_statements_max)"
                )
            if self._taken.total() >= self._limits.statements_max:
                raise Busy(f"{self._taken.total()} statements are under way (sql_http.statements_max)")
            self._taken[who] += 1

    def give_back(self, who: str) -> None:
        """It is free again."""
        with self._lock:
            self._taken[who] -= 1
            if self._taken[who] <= 0:
                del self._taken[who]
