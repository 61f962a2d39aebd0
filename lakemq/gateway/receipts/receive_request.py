"""What a receive asks for, and what it chose."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple

from lakemq.gateway.filter.selector import Selector
from lakemq.model.names import retry_topic
from lakemq.storage.segment.slice import Slice
from lakemq.storage.slices.holes import Gap
from lakemq.storage.state.topics import Queue
from lakemq.web.asgi import Client


class Passed:
    """What a receive has passed over until it is answered."""

    __slots__ = ("expired",)

    def __init__(self) -> None:
        self.expired = 0
        """So many messages whose time to live was over."""


class ReceiveRequest(NamedTuple):
    """Up to `messages_max` messages of `topic`, and of the group's retries of it, that are nobody
    else's for `invisible_ms`."""

    group: str
    topic: str
    messages_max: int
    invisible_ms: int
    max_reconsume_times: int
    ordered: bool
    selector: Selector
    filter: str
    """`filter_key` of the selector's texts: the same for the same selector."""
    client: Client = None
    """In whose turn what takes long is done."""
    passed: Passed | None = None

    @property
    def retry_topic(self) -> str:
        """Where the group's retries are."""
        return retry_topic(self.group)


class Chosen(NamedTuple):
    """What was chosen of one queue; the group goes on at offset `low`, unless its place in the queue was
    reset once more than `resets` times meanwhile. `gaps`: what was gone."""

    queue: Queue
    parts: list[Slice]
    low: int
    resets: int
    gaps: list[Gap]

    @property
    def count_rows(self) -> int:
        """How many messages these are."""
        return sum([part.count for part in self.parts])


def filter_key(tags: str | None, sql: str | None) -> str:
    """What tells a selector from all others. It is kept for each that a client thinks of, so it is short, however
    long the texts are."""
    return "" if tags is None and sql is None else blake2b(repr((tags, sql)).encode(), digest_size=16).hexdigest()


def values(part: Slice, column: str) -> list[Any]:
    """The slice's values in a stored column."""
    return part.frame.content.values(column, part.row, part.count)
