"""Which topics a reader of the log wants."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute

from lakemq.gateway.access.caller import Caller, caller_of
from lakemq.gateway.http.in_slices import Pause, all_of
from lakemq.model.access import Action, need_of_topic
from lakemq.model.errors import InvalidRequest
from lakemq.storage.log.commit_log import CommitLog
from lakemq.web.asgi import Client, Scope, client_of
from lakemq.web.gate import Gate

# Its functions are made as it is imported: no type checker sees them.
pc: Any = pyarrow.compute

PATTERN_CHARACTERS_MAX = 1000
TOPICS_NAMED_MAX = 1_000
"""In one request: of each it is looked whether who asks may read it."""
MATCHED_AT_ONCE = 100
"""Names, before others have their turn."""


def topics_of(topics: str | None) -> set[str] | None:
    """Those of a list with commas between; None for all. Raises `InvalidRequest`."""
    if topics is None:
        return None
    named = {topic.strip() for topic in topics.split(",") if topic.strip()}
    if len(named) > TOPICS_NAMED_MAX:
        raise InvalidRequest(
            f"topics names {len(named)} topics; {TOPICS_NAMED_MAX} may be named at most: take a pattern"
        )
    return named


async def readable(
    log: CommitLog, gate: Gate, scope: Scope, actions: tuple[Action, ...], topics: str | None, pattern: str | None
) -> set[str] | None:
    """The topics that a reader wants and may do one of the actions to; None for all of the log. All that are named must
    be allowed. Of those that a pattern matches a user gets his; of the system's only who may read all does. `gate`: for
    patterns. Raises `InvalidRequest`, `Forbidden`, `Unauthenticated`, `Busy`."""
    caller = caller_of(scope)
    if pattern is None:
        return await _allowed(caller, actions, topics_of(topics))
    if topics is not None:
        raise InvalidRequest("at most one of topics and pattern")
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise InvalidRequest(f"pattern has more than {PATTERN_CHARACTERS_MAX} characters")
    client, names = client_of(scope), [topic.name for topic in log.topics]
    if not caller.name:
        return await _allowed(caller, actions, await matching(names, pattern, gate, client))
    if not caller.trusted:  # first, so that nobody's pattern works on more than he may see
        async with gate.place(client):
            names = await all_of(name for name in names if caller.may(need_of_topic(actions, name)))
    return await matching(names, pattern, gate, client)


async def _allowed(caller: Caller, actions: tuple[Action, ...], wanted: set[str] | None) -> set[str] | None:
    pause = Pause()
    for topic in wanted or ():
        caller.check(need_of_topic(actions, topic))
        await pause()
    return wanted


async def matching(names: Sequence[str], pattern: str, gate: Gate, client: Client) -> set[str]:
    """The names that match as a whole. Off the loop, some at a time: a pattern may take a millisecond for each. Raises
    `InvalidRequest`, `Busy`."""
    found: set[str] = set()
    for first in range(0, max(len(names), 1), MATCHED_AT_ONCE):
        async with gate.place(client):
            found |= await asyncio.to_thread(_matching, names[first : first + MATCHED_AT_ONCE], pattern)
    return found


def _matching(names: Sequence[str], pattern: str) -> set[str]:
    """Arrow's engine takes linear time, whatever the pattern is: with Python's own one request could stop the gateway
    for years."""
    column = pa.array(names, type=pa.string())
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
        matches = pc.match_substring_regex(column, rf"\A(?:{pattern})\z")
    except pa.ArrowException as error:
        raise InvalidRequest(f"pattern is no regular expression: {error}") from None
    return set(column.filter(matches).to_pylist())
