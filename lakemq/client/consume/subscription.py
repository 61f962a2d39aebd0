"""What a consumer subscribes to, and where a group that has consumed nothing yet begins."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, NamedTuple, cast

from lakemq.client.wrong_type import WrongType
from lakemq.model.errors import InvalidRequest
from lakemq.model.names import check_readable

ConsumeFrom = Literal["first", "last"] | datetime
"""The first message there is, those that come from now on, or the first stored at that time."""


class Subscription(NamedTuple):
    """A topic, and which of its messages: those with one of the `tags` (`A || B`, `*` for all), or
    for which `sql`, an SQL92 expression over their properties, is true."""

    topic: str
    tags: str = "*"
    sql: str | None = None

    def describe(self) -> dict[str, str]:
        """As heartbeats carry it."""
        if self.sql is not None:
            return {"topic": self.topic, "type": "sql92", "expression": self.sql}
        return {"topic": self.topic, "type": "tag", "expression": self.tags}

    def params(self) -> dict[str, str]:
        """As pulls carry it."""
        if self.sql is not None:
            return {"sql": self.sql}
        return {} if self.tags.strip() in ("", "*") else {"tags": self.tags}


def make_subscription(topic: str, tags: str, sql: str | None) -> Subscription:
    """Checks what can be checked here; raises `InvalidTopic`, `InvalidRequest`."""
    if not isinstance(cast("object", topic), str):
        raise WrongType("a topic is text", topic)
    check_readable(topic)
    if sql is not None and tags.strip() not in ("", "*"):
        raise InvalidRequest("subscribe by tags or by sql, not by both")
    return Subscription(topic, tags, sql)


def describe_consume_from(consume_from: ConsumeFrom) -> dict[str, Any]:
    """As heartbeats carry it."""
    if isinstance(consume_from, datetime):
        return {"consume_from": "timestamp", "consume_timestamp_ms": to_ms(consume_from)}
    return {"consume_from": consume_from}


def check_consume_from(consume_from: ConsumeFrom) -> ConsumeFrom:
    """Raises `InvalidRequest` for what is none."""
    if isinstance(consume_from, datetime):
        to_ms(consume_from)
    elif consume_from not in ("first", "last"):
        raise InvalidRequest(f"consume_from is 'first', 'last' or a datetime, not {consume_from!r}")
    return consume_from


def to_ms(time: datetime) -> int:
    """Milliseconds since the epoch; raises `InvalidRequest` for a time without a zone."""
    if time.tzinfo is None:
        raise InvalidRequest("a time needs a time zone, such as datetime.timezone.utc")
    return max(int(time.timestamp() * 1000), 0)
