"""What a client says of itself to brokers, for people who look who is connected."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterable
from typing import Any

from lakemq import __version__
from lakemq.model.message_queue import MessageQueue

QUEUES_MAX = 100
"""So many are named to each broker; how many there are is said beside."""


def default_client_id() -> str:
    """A name that no other client has: the machine's, the process's, and chance."""
    return f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"


def describe_self(**status: Any) -> dict[str, Any]:
    """As heartbeats carry it."""
    return {"language": "python", "version": __version__, **status}


def describe_queues(queues: Iterable[MessageQueue]) -> dict[str, Any]:
    """Those that a client has at one broker."""
    held = sorted(queues)
    named = [{"topic": each.topic, "queue_id": each.queue_id} for each in held[:QUEUES_MAX]]
    return {"queues": named, "queue_count": len(held)}
