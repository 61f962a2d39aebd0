"""A search by key in all topics, as `lakemq message search --key` does it: with the same bounds, and a time."""

from __future__ import annotations

import asyncio
import time
from typing import Any, NamedTuple

from lakemq.console.asked import Who
from lakemq.console.pages.named import listed
from lakemq.console.visit import Visit
from lakemq.contract import routes
from lakemq.model.access import Action, Kind, Resource
from lakemq.model.errors import LakemqError

TOPICS_MAX = 1_000
"""A search of all topics stops after so many."""
SEARCH_S = 20.0
"""And after that time."""
AT_ONCE = 8
"""Topics that are searched at a time."""
LISTED = 500
ANSWER_S = 30.0
_READS = (Action.SUB, Action.GET)


class Searched(NamedTuple):
    """`rows`: the newest first. `complete`: each topic was searched as far as it goes. `notes`: what was not."""

    rows: list[dict[str, Any]]
    complete: bool
    notes: list[str]


async def search_all(visit: Visit, params: dict[str, str | int], most: int) -> Searched:
    """The newest messages with a key, of the topics that this user may list and read; of those that its policies name
    where it may not list. Raises `LakemqError`."""
    who, end_s = await visit.who(), time.monotonic() + SEARCH_S
    topics, more = await _topics(visit, who)
    mine = [each for each in topics if any(who.might(action, Resource(Kind.TOPIC, each)) for action in _READS)]
    refused, complete = len(topics) - len(mine), True
    rows: list[dict[str, Any]] = []
    notes: list[str] = []
    for at in range(0, len(mine), AT_ONCE):
        if time.monotonic() > end_s:
            notes.append(f"The search stopped after {SEARCH_S:.0f} s, before {mine[at]}: name a topic to search it.")
            break
        for found in await asyncio.gather(*(_one(visit, each, params) for each in mine[at : at + AT_ONCE])):
            if found is None:
                refused += 1
                continue
            complete = complete and bool(found["complete"])
            rows += found["messages"]
        rows = sorted(rows, key=lambda each: -each["store_time_ms"])[:most]
    if more:
        notes.append(f"The search stopped after {TOPICS_MAX:,} topics: name a topic to search it.")
    if refused:
        notes.append(f"{refused:,} topic{' was' if refused == 1 else 's were'} not searched: you may not read them.")
    return Searched(rows, complete, notes)


async def _topics(visit: Visit, who: Who) -> tuple[list[str], bool]:
    """Those to search, and whether there are more."""
    names: list[str] = []
    params: dict[str, str | int] = {"limit": LISTED}
    while len(names) < TOPICS_MAX:
        answer = await listed(visit, who, Kind.TOPIC, routes.TOPICS.at(), params)
        if answer is None:
            return who.named(_READS, Kind.TOPIC)[0], False
        names += [each["topic"] for each in answer["topics"]]
        if (after := answer.get("next_after")) is None:
            return names[:TOPICS_MAX], len(names) > TOPICS_MAX
        params["after"] = after
    return names[:TOPICS_MAX], True


async def _one(visit: Visit, topic: str, params: dict[str, str | int]) -> dict[str, Any] | None:
    """What one topic has; None: this user may not read it. A topic that was deleted meanwhile has nothing."""
    try:
        return await visit.broker.get(routes.MESSAGES_BY_KEY.at(), params | {"topic": topic}, timeout_s=ANSWER_S)
    except LakemqError as error:
        if error.code == "topic_not_found":
            return {"messages": [], "complete": True}
        if error.code != "forbidden":
            raise
        return None
