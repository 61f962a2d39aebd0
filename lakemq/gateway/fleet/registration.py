"""What a broker says of itself to the name servers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from lakemq.model.names import DEAD_LETTER_PREFIX, RETRY_PREFIX, is_system
from lakemq.settings import Broker
from lakemq.storage.state.log_identity import LogIdentity
from lakemq.storage.state.topics import Topic


def is_registered(topic: str) -> bool:
    """Whether clients look for the topic: for their own ones, and for what groups failed on."""
    return not is_system(topic) or topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))


def heartbeat(
    broker: Broker, role: str, address: str, identity: LogIdentity, topics: Iterable[Topic]
) -> dict[str, Any]:
    """The body of `PUT /v1/brokers/{broker}/replicas/{replica}`; its topics are described as they are asked for."""
    return {
        "cluster": broker.cluster,
        "address": address,
        "role": role,
        "epoch": identity.now.epoch,
        "log_id": identity.log_id,
        "permission": broker.permission,
        "topics": _entries(topics),
    }


def _entries(topics: Iterable[Topic]) -> Iterator[dict[str, Any]]:
    for topic in topics:
        if is_registered(topic.name):
            yield {"topic": topic.name, "queues": len(topic.queues), "permission": topic.permission}
