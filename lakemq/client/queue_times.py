"""Since when a topic's queues have messages: a broker tells it of so many queues a request. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lakemq.contract.limits import TIMES_MAX

TIMED_MAX = 4_096
"""Of so many queues a broker is asked: each answer lists all that the topic has."""
FIRST: Mapping[str, int] = {"times": TIMES_MAX}
"""The query of the first queues."""
_TIMES = ("oldest_ms", "newest_ms")


def following(topic: Mapping[str, Any]) -> Iterator[dict[str, int]]:
    """The queries of the others, by the answer to the first."""
    for begin in range(TIMES_MAX, min(len(topic["queues"]), TIMED_MAX), TIMES_MAX):
        yield {"times": TIMES_MAX, "times_from": begin}


def take_times(topic: Mapping[str, Any], page: Mapping[str, Any]) -> None:
    """Add what another answer tells. The topic may have got queues meanwhile, which are left out."""
    for queue, told in zip(topic["queues"], page["queues"], strict=False):
        queue.update({name: told[name] for name in _TIMES if name in told})
