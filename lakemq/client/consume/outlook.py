"""What the client logs about a failed message: which attempt it was, and what happens next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from lakemq.model.delay import LEVELS_MS, delay_of_level
from lakemq.model.retry import FIRST_LEVEL

RETRIES = 16
"""A broker's `retry.max_reconsume_times`, unless it is set otherwise: it doesn't tell its consumers."""


class Outlook(NamedTuple):
    """How a consumer retries. `max_reconsume_times` None: an orderly one has no limit, any other the broker's.
    `by_topic`: what goes before it, where each topic has a listener with retries of its own."""

    orderly: bool
    broadcasting: bool
    max_reconsume_times: int | None
    suspend_s: float
    by_topic: Mapping[str, int] = {}

    def after(self, reconsume_times: int, topic: str = "") -> str:
        """What happens next to a message on which the listener failed, after so many retries."""
        limit = self.by_topic.get(topic, self.max_reconsume_times)
        is_last = limit is not None and reconsume_times >= limit
        attempt = f"attempt {reconsume_times + 1}"
        if self.broadcasting and (is_last or not self.orderly):
            return "no retry: broadcasting has none"
        if limit is not None:
            attempt += f" of {limit + 1}"
        elif not self.orderly:
            attempt += f" of {RETRIES + 1} by default"
        if is_last:
            return f"{attempt}, it goes to the dead letters"
        if self.orderly:
            return f"{attempt}, its queue waits for the retry in {self.suspend_s:g} s"
        if limit is None and reconsume_times >= RETRIES:
            return f"{attempt}, it goes to the dead letters unless the broker allows more"
        return f"{attempt}, the broker delivers it again, by default in {_delay(reconsume_times)}"


def _delay(reconsume_times: int) -> str:
    """What a broker waits before that retry, by the delay levels that it has unless they are set otherwise."""
    seconds = delay_of_level(FIRST_LEVEL + reconsume_times, LEVELS_MS) // 1000
    unit, length = next(each for each in (("h", 3600), ("min", 60), ("s", 1)) if seconds % each[1] == 0)
    return f"{seconds // length} {unit}"
