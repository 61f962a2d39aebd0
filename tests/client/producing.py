"""What the producers' tests have in common."""

from __future__ import annotations

import socket

from lakemq.client import MessageView
from lakemq.client.http import HttpClient

DEAD = "http://127.0.0.1:9"
"""Nobody listens there."""


def stored(url: str, topic: str) -> list[MessageView]:
    """All messages of a topic, by queue and offset."""
    with HttpClient(url) as http:
        messages: list[MessageView] = []
        for queue in http.topic(topic)["queues"]:
            offset = queue["min_offset"]
            while (pulled := http.pull(topic, queue["queue_id"], offset, 10_000)).messages:
                messages += pulled.messages
                offset = pulled.next_offset
    return messages


def bodies(url: str, topic: str) -> list[bytes]:
    """Their bodies."""
    return [message.body for message in stored(url, topic)]


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
