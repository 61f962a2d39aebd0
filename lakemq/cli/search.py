"""Looking for messages of a topic, queue by queue, by what the broker can tell without its bodies."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lakemq.client.http import HttpClient
    from lakemq.client.message import Message

PULL_MAX = 1_000


class Wanted(NamedTuple):
    """What is looked for: the newest `count_max` messages stored from `begin_ms` on and before `end_ms`
    that have the key, one of the tags, and the properties that `sql` asks for."""

    key: str | None
    tags: str
    sql: str | None
    begin_ms: int | None
    end_ms: int | None
    count_max: int

    def condition(self) -> str | None:
        """What the broker is to choose by, beside tags."""
        if self.key is None:
            return self.sql
        if self.sql is None:
            return _has_key(self.key)
        return f"(\n{self.sql}\n) AND {_has_key(self.key)}"  # the lines end a comment


def search(client: HttpClient, topic: str, wanted: Wanted) -> list[Message]:
    """The messages that the log holds, newest first."""
    found: list[Message] = []
    for queue in client.topic(topic)["queues"]:
        found += _search_queue(client, topic, queue["queue_id"], queue["max_offset"], wanted)
    found.sort(key=lambda message: message.position, reverse=True)
    return found[: wanted.count_max]


def _search_queue(client: HttpClient, topic: str, queue_id: int, end: int, wanted: Wanted) -> deque[Message]:
    if wanted.sql is not None:
        client.pull(topic, queue_id, end, 1, sql=wanted.sql)  # what is wrong with it, at its own place
    offset = 0 if wanted.begin_ms is None else client.offset_at(topic, queue_id, wanted.begin_ms)
    if wanted.end_ms is not None:
        end = min(end, client.offset_at(topic, queue_id, wanted.end_ms))
    newest: deque[Message] = deque(maxlen=wanted.count_max)
    while offset < end:
        answer = client.pull(topic, queue_id, offset, min(PULL_MAX, end - offset), 0, wanted.tags, wanted.condition())
        for message in answer.messages:
            if message.queue_offset < end and (wanted.key is None or wanted.key in message.keys):
                newest.append(message)
        if answer.next_offset <= offset:
            break
        offset = answer.next_offset
    return newest


def _has_key(key: str) -> str:
    """The keys are one text, with blanks between."""
    exact = key.replace("'", "''")
    part = "".join("!" + letter if letter in "!%_" else letter for letter in exact)
    patterns = [f"{part} %", f"% {part}", f"% {part} %"]
    like = " OR ".join(f"KEYS LIKE '{pattern}' ESCAPE '!'" for pattern in patterns)
    return f"(KEYS = '{exact}' OR {like})"
