"""Since when a topic's queues have messages: a broker tells it of so many queues a request. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lakemq.contract.limits import TIMES_MAX

TIMED_MAX = 4_096
"""Of so many queues a broker is asked: each answer lists all that the topic has."""
_TIMES = ("oldest_ms", "newest_ms")


class Asking:
    """One question for a topic, with `times` also since when its queues have messages. `topic`: what is known so far,
    each answer to one of the `queries`."""

    def __init__(self, times: bool) -> None:
        self._times = times
        self.topic: dict[str, Any] = {}

    def queries(self) -> Iterator[dict[str, int] | None]:
        """Those of its requests. The answer to each is taken before the next one is asked for."""
        if not self._times:
            yield None
            return
        yield {"times": TIMES_MAX}
        for begin in range(TIMES_MAX, min(len(self.topic["queues"]), TIMED_MAX), TIMES_MAX):
            yield {"times": TIMES_MAX, "times_from": begin}

    def take(self, answer: dict[str, Any]) -> None:
        """Add what an answer tells. The topic may have got queues meanwhile, which are left out."""
        if not self.topic:
            self.topic = answer
            return
        for queue, told in zip(self.topic["queues"], answer["queues"], strict=False):
            queue.update({name: told[name] for name in _TIMES if name in told})
