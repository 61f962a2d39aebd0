"""What a row of the log is in the life of a message, by its topic (docs/routing.md)."""

from __future__ import annotations

from lakemq.model.names import (
    ACK_TOPIC,
    CHECK_MAX_TOPIC,
    DEAD_LETTER_PREFIX,
    DECISION_TOPIC,
    HALF_TOPIC,
    NACK_TOPIC,
    OP_TOPIC,
    RECEIVE_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
)

_WHAT = {
    SCHEDULE_TOPIC: "scheduled",
    HALF_TOPIC: "checked",
    OP_TOPIC: "operation",
    CHECK_MAX_TOPIC: "given_up",
    NACK_TOPIC: "nacked",
    RECEIVE_TOPIC: "received",
    ACK_TOPIC: "acknowledged",
    DECISION_TOPIC: "decided",
}
_OF_GROUPS = ((RETRY_PREFIX, "retried"), (DEAD_LETTER_PREFIX, "dead"))


def what_of(topic: str) -> tuple[str, str | None]:
    """What a row of the topic is, and the group that the topic names; None: it names none."""
    for prefix, name in _OF_GROUPS:
        if topic.startswith(prefix):
            return name, topic.removeprefix(prefix)
    return _WHAT.get(topic, "stored"), None
