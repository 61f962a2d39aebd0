"""What a member of a group says that it has. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from lakemq.model.written import NOT_KNOWN, count

QUEUES_NAMED_MAX = 12
"""Queues, or runs of them, that are named."""


def held(client: Mapping[str, Any]) -> str:
    """Its queues by topic, such as `orders 0–3, 7; payments 1`. A dash: it hasn't said."""
    known = client.get("queue_count")
    if known is None:
        return NOT_KNOWN
    named: dict[str, list[str]] = {}
    left = int(known)
    runs = _runs(sorted((str(each["topic"]), int(each["queue_id"])) for each in client.get("queues") or ()))
    for topic, first, last in list(runs)[:QUEUES_NAMED_MAX]:
        named.setdefault(topic, []).append(str(first) if first == last else f"{first}–{last}")
        left -= last - first + 1
    said = [f"{topic} {', '.join(each)}" for topic, each in named.items()]
    if left > 0:
        said.append(f"{'and ' if said else ''}{count(left)} {'more ' if said else ''}queue{'s' * (left != 1)}")
    return "; ".join(said) or "no queues"


def _runs(queues: Sequence[tuple[str, int]]) -> Iterator[tuple[str, int, int]]:
    """Of sorted queues: topic, first and last of each run without a hole."""
    for (topic, _), found in groupby(enumerate(queues), key=lambda each: (each[1][0], each[1][1] - each[0])):
        run = [number for _, (_, number) in found]
        yield topic, run[0], run[-1]
