"""What the consumers' tests have in common."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import quote

import httpx

from lakemq.client import MessageView
from lakemq.client.http import HttpClient
from lakemq.model.message import Draft

WAIT_S_MAX = 60.0


def wait_until(done: Callable[[], bool], what: str = "it did not come") -> None:
    """Look until it is so; fails after a minute."""
    end = time.monotonic() + WAIT_S_MAX
    while not done():
        assert time.monotonic() < end, what
        time.sleep(0.005)


class Seen:
    """What listeners saw, in their order."""

    def __init__(self) -> None:
        self.messages: list[MessageView] = []
        self._lock = threading.Lock()

    def add(self, message: MessageView) -> None:
        """A listener that has nothing against any message."""
        with self._lock:
            self.messages.append(message)

    @property
    def texts(self) -> list[str]:
        """Their bodies."""
        return [message.text() for message in self.messages]

    def wait(self, expected: Iterable[str]) -> None:
        """Wait until each of these was seen."""
        wanted = set(expected)
        wait_until(lambda: wanted <= set(self.texts), f"of {len(wanted)} messages some did not come")


def put(url: str, topic: str, texts: Sequence[str], **fields: object) -> None:
    """Produce messages of these texts; `fields` are those of `Draft`."""
    with HttpClient(url) as http:
        http.produce(topic, [Draft(text.encode(), **fields) for text in texts])  # pyright: ignore[reportArgumentType]


def make_topic(url: str, topic: str, queues: int = 4) -> None:
    """Make a topic."""
    with HttpClient(url) as http:
        http.create_topic(topic, queues)


def is_there(url: str, topic: str) -> bool:
    """Whether there is such a topic."""
    return httpx.get(f"{url}/v1/topics/{quote(topic)}", trust_env=False, timeout=WAIT_S_MAX).is_success


def offsets(url: str, group: str, topic: str) -> dict[int, int]:
    """A group's committed offsets of a topic."""
    answer = httpx.get(
        f"{url}/v1/groups/{group}/offsets", params={"topic": topic}, trust_env=False, timeout=WAIT_S_MAX
    ).json()
    return {entry["queue_id"]: entry["offset"] for entry in answer["offsets"]}


def view(url: str, group: str) -> dict[str, object]:
    """The broker's view of a group."""
    return httpx.get(f"{url}/v1/groups/{group}", trust_env=False, timeout=WAIT_S_MAX).json()


def numbered(count: int, prefix: str = "m") -> list[str]:
    """So many texts, all different."""
    return [f"{prefix}{number}" for number in range(count)]
