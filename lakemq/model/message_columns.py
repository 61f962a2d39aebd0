"""What a message consists of: each column once, with its kind, who may give it and its bound.

The schemas of frames, requests and answers (`columns.py`), the checks of requests, what the client sends and the
columns of `format("lakemq")` and of the lake's table are made of it. Plain Python: clients load it too.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Kind(Enum):
    """What a column holds. `TIME`: ms since the epoch, in a column whose name ends with `_ms`; the lake and
    `format("lakemq")` have a timestamp in its place."""

    BYTES = "bytes"
    TEXT = "text"
    TEXTS = "list of texts"
    MAP = "map of texts"
    INT = "integer of 32 bits"
    LONG = "integer of 64 bits"
    TIME = "time"


class Giver(Enum):
    """Who may say it of a message."""

    BROKER = "broker"
    SINK = "sink"
    """Whoever copies messages into the log, and a broker."""
    PRODUCER = "producer"
    """Everybody."""


class Column(NamedTuple):
    """One column. `most`: the bytes of a TEXT or of each of TEXTS, or the greatest number, and `least` the least one;
    of what is given only. `routes`: it is for what delivers messages (docs/routing.md), and pulls don't answer it."""

    name: str
    kind: Kind
    giver: Giver = Giver.BROKER
    most: int = 0
    routes: bool = False
    least: int = 0

    @property
    def lake_name(self) -> str:
        """Its name where times are timestamps."""
        return self.name.removesuffix("_ms") if self.kind is Kind.TIME else self.name


TIME_MS_MAX = 2**53
"""Beyond it a time is no longer exact in JSON."""
TTL_MS_MAX = 10 * 366 * 86_400_000
"""Ten years: what lives longer needs no time to live."""
QUEUE_ID_MAX = 65_534

STORED: tuple[Column, ...] = (
    Column("body", Kind.BYTES, Giver.PRODUCER),
    Column("tag", Kind.TEXT, Giver.PRODUCER, 1_024),
    Column("keys", Kind.TEXTS, Giver.PRODUCER, 1_024),
    Column("properties", Kind.MAP, Giver.PRODUCER),
    Column("ordering_key", Kind.TEXT, Giver.PRODUCER, 1_024),
    Column("born_time_ms", Kind.TIME, Giver.PRODUCER, TIME_MS_MAX),
    Column("deliver_at_ms", Kind.TIME, Giver.PRODUCER, TIME_MS_MAX),
    Column("reconsume_times", Kind.INT),
    Column("real_topic", Kind.TEXT),
    Column("real_queue_id", Kind.INT),
    Column("origin_message_id", Kind.TEXT, Giver.SINK),
    Column("transaction_id", Kind.TEXT),
    Column("cause", Kind.LONG, routes=True),
    Column("group", Kind.TEXT, routes=True),
    Column("check_times", Kind.INT, routes=True),
    Column("retry_topic", Kind.TEXT, routes=True),
    Column("ttl_ms", Kind.LONG, Giver.PRODUCER, TTL_MS_MAX, least=1),
    Column("priority", Kind.INT, Giver.PRODUCER, QUEUE_ID_MAX),
)
"""What a frame's payload holds. A column's bit in a frame's mask is its index here: append only, never reorder.

`cause`: the position of what this message is the one effect of. `group`: the producer group of a
half or an operation, the consumer group of a nack or a dead letter. `check_times`: how often a half
was checked. `retry_topic`: the topic of the first, while a retry waits in the schedule topic. `ttl_ms`: how long
after its store time it is delivered (`expiry.py`). `priority`: which queue of a topic of priorities it is in.
"""

COMPUTED: tuple[Column, ...] = (
    Column("message_id", Kind.TEXT),
    Column("topic", Kind.TEXT),
    Column("queue_id", Kind.INT, Giver.PRODUCER, QUEUE_ID_MAX),
    Column("queue_offset", Kind.LONG),
    Column("position", Kind.LONG),
    Column("store_time_ms", Kind.TIME),
)
"""What follows from a frame's header: every message has all of them."""

GIVEN: tuple[Column, ...] = tuple(column for column in (*STORED, *COMPUTED) if column.giver is Giver.PRODUCER)
"""What a producer may say; only the body is needed."""

GIVEN_TO_SINK: tuple[Column, ...] = (*GIVEN, *(column for column in STORED if column.giver is Giver.SINK))
"""What may be said of a message that is put in through a sink."""

ANSWERED: tuple[Column, ...] = (*COMPUTED, *(column for column in STORED if not column.routes))
"""What is told of a message, in this order. `born_time_ms` and `reconsume_times` are never null there."""
