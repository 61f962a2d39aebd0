"""Which topics a reader of the log wants."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute

from lakemq.gateway.access.caller import Caller
from lakemq.gateway.http.in_slices import Pause
from lakemq.model.access import Action, need_of_topic
from lakemq.model.errors import InvalidRequest
from lakemq.storage.log.commit_log import CommitLog

# Its functions are made as it is imported: no type checker sees them.
pc: Any = pyarrow.compute

PATTERN_CHARACTERS_MAX = 1000
TOPICS_NAMED_MAX = 1_000
"""In one request: of each it is looked whether who asks may read it."""


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
    log: CommitLog, caller: Caller, actions: tuple[Action, ...], topics: str | None, pattern: str | None
) -> set[str] | None:
    """The topics that a reader wants and may do one of the actions to; None for all of the log. All that are named must
    be allowed. Of those that a pattern matches a user gets his; of the system's only who may read all does. Raises
    `InvalidRequest`, `Forbidden`, `Unauthenticated`."""
    wanted = _subscription(log, topics, pattern)
    if wanted is None:
        return None
    pause, allowed = Pause(), set[str]()
    filters = pattern is not None and bool(caller.name)
    for topic in wanted:
        need = need_of_topic(actions, topic)
        if not filters:
            caller.check(need)
        if not filters or caller.may(need):
            allowed.add(topic)
        await pause()
    return allowed


def _subscription(log: CommitLog, topics: str | None, pattern: str | None) -> set[str] | None:
    """The topics that a reader wants; None for all. Raises `InvalidRequest`."""
    if topics is not None and pattern is not None:
        raise InvalidRequest("at most one of topics and pattern")
    if pattern is None:
        return topics_of(topics)
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise InvalidRequest(f"pattern has more than {PATTERN_CHARACTERS_MAX} characters")
    return _matching([topic.name for topic in log.topics], pattern)


def _matching(names: list[str], pattern: str) -> set[str]:
    """The names that match as a whole. Arrow's engine takes linear time, whatever the pattern is:
    with Python's own one request could stop the gateway for years."""
    column = pa.array(names, type=pa.string())
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
        matches = pc.match_substring_regex(column, rf"\A(?:{pattern})\z")
    except pa.ArrowException as error:
        raise InvalidRequest(f"pattern is no regular expression: {error}") from None
    return set(column.filter(matches).to_pylist())
