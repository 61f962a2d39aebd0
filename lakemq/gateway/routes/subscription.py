"""Which topics a reader of the log wants."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute

from lakemq.gateway.access.caller import Caller
from lakemq.model.access import Action, Kind, Need, Resource, need_of_topic
from lakemq.model.errors import InvalidRequest
from lakemq.storage.log.commit_log import CommitLog

# Its functions are made as it is imported: no type checker sees them.
pc: Any = pyarrow.compute

PATTERN_CHARACTERS_MAX = 1000


def topics_of(topics: str | None) -> set[str] | None:
    """Those of a list with commas between; None for all."""
    return None if topics is None else {topic.strip() for topic in topics.split(",") if topic.strip()}


def readable(log: CommitLog, caller: Caller, topics: str | None, pattern: str | None) -> set[str] | None:
    """The topics whose messages a reader gets; None for all, which takes `Get` on the cluster. All that are named must
    be allowed. Of those that a pattern matches a user gets his; of the system's only who may read all does. Raises
    `InvalidRequest`, `Forbidden`, `Unauthenticated`."""
    wanted = subscription_of(log, topics, pattern)
    if wanted is None:
        caller.check(Need((Action.GET,), Resource(Kind.CLUSTER), guarded=True))
        return None
    needs = {topic: need_of_topic((Action.SUB,), topic) for topic in wanted}
    if pattern is not None and caller.name:
        return {topic for topic, need in needs.items() if caller.may(need)}
    for need in needs.values():
        caller.check(need)
    return wanted


def subscription_of(log: CommitLog, topics: str | None, pattern: str | None) -> set[str] | None:
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
