"""When messages that come again expire."""

from __future__ import annotations

from lakemq.gateway.effects.executor import Executor
from lakemq.model.expiry import expires_ms
from lakemq.model.names import RETRY_PREFIX
from lakemq.storage.segment.rows import Row, value_of


def expires_at(executor: Executor, row: Row, stored_topic: str, store_time_ms: int) -> int | None:
    """When the message that was stored so is delivered no more; None: always. A retry has what was left of its time:
    it has its topic's no more."""
    ttl_ms: int | None = value_of(row, "ttl_ms")
    topic = None if stored_topic.startswith(RETRY_PREFIX) else executor.log.topics.find(stored_topic)
    return expires_ms(store_time_ms, ttl_ms, topic.config.ttl_ms if topic is not None else 0)


def note_expired(executor: Executor, topic_name: str) -> None:
    """A message of the topic would have come again, and has expired."""
    executor.expired += 1
    topic = executor.log.topics.find(topic_name)
    if topic is not None:
        topic.expired += 1
