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
from lakemq.model.all_topics import TOPICS_MAX, AllTopics
from lakemq.model.errors import LakemqError

SEARCH_S = 20.0
"""A search of all topics stops after that time too."""
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
    found = AllTopics[dict[str, Any]](most, _stored_ms)
    found.refuse(len(topics) - len(mine))
    for at in range(0, len(mine), AT_ONCE):
        if time.monotonic() > end_s:
            found.stop(f"{SEARCH_S:.0f} s", mine[at])
            break
        for answer in await asyncio.gather(*(_one(visit, each, params) for each in mine[at : at + AT_ONCE])):
            if answer is None:
                found.refuse()
            else:
                found.take(answer["messages"], bool(answer["complete"]))
    if more:
        found.stop()
    return Searched(found.messages, found.complete, [_sentence(each) for each in found.notes("you")])


def _stored_ms(row: dict[str, Any]) -> int:
    return row["store_time_ms"]


def _sentence(note: str) -> str:
    return f"{note[0].upper()}{note[1:]}."


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
