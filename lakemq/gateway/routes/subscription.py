"""Which topics a reader of the log wants."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute

from lakemq.model.errors import InvalidRequest
from lakemq.storage.log.commit_log import CommitLog

# Its functions are made as it is imported: no type checker sees them.
pc: Any = pyarrow.compute

PATTERN_CHARACTERS_MAX = 1000


def topics_of(topics: str | None) -> set[str] | None:
    """Those of a list with commas between; None for all."""
    return None if topics is None else {topic.strip() for topic in topics.split(",") if topic.strip()}


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
