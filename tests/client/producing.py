"""What the producers' tests have in common."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress

from lakemq.client import MessageView, Producer, Unreachable
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


def reaches(producer: Producer, topic: str, *brokers: str) -> bool:
    """Whether messages go to just these brokers, all of them. On a busy machine one may be slow, and so avoided
    for longer than any test waits: that is forgiven, and so is a send that has no answer in time."""
    deadline_s = time.monotonic() + 60
    found: set[str] = set()
    while found != set(brokers) and time.monotonic() < deadline_s:
        with suppress(Unreachable):
            found.add(producer.send(topic, b"known").broker)
        _forgive(producer, brokers)
        if not found <= set(brokers):
            return False
        time.sleep(0.02)
    return found == set(brokers)


def _forgive(producer: Producer, brokers: Iterable[str]) -> None:
    loop = producer._loop.loop  # pyright: ignore[reportPrivateUsage]
    latency = producer._core.deliverer._latency  # pyright: ignore[reportPrivateUsage]
    for broker in brokers:
        loop.call_soon_threadsafe(latency.forgive, broker)
