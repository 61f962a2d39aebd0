"""Names of topics: which are well formed, whose they are, and who may write them."""

from __future__ import annotations

import re

from lakemq.model.errors import InvalidTopic, ReadOnlyTopic

SYSTEM_PREFIXES = ("%", "RMQ_SYS_")
RETRY_PREFIX = "%RETRY%"
DEAD_LETTER_PREFIX = "%DLQ%"
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"

_CLIENT_NAME = re.compile(r"[A-Za-z0-9_-]{1,127}\Z")
_SYSTEM_NAME = re.compile(r"(%RETRY%|%DLQ%)?[A-Za-z0-9_-]{1,127}\Z")


def is_system(topic: str) -> bool:
    """Whether the topic is the system's: clients never write it."""
    return topic.startswith(SYSTEM_PREFIXES) or topic == SCHEDULE_TOPIC


def check_readable(topic: str) -> str:
    """Return `topic` if a client may name it to read; raises `InvalidTopic`."""
    if not _SYSTEM_NAME.match(topic):
        raise InvalidTopic(f"topic {topic[:200]!r} does not match [A-Za-z0-9_-]{{1,127}}")
    return topic


def check_writable(topic: str) -> str:
    """Return `topic` if a client may write it; raises `InvalidTopic` or `ReadOnlyTopic`."""
    if is_system(topic):
        raise ReadOnlyTopic(f"topic {topic[:200]!r} is the system's; clients can't write it")
    if not _CLIENT_NAME.match(topic):
        raise InvalidTopic(f"topic {topic[:200]!r} does not match [A-Za-z0-9_-]{{1,127}}")
    return topic
