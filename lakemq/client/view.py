"""Messages that were received, as views of the columns they came in.

A pull of thousands makes Python's objects of a column when one of its values is first asked for,
all at once: that costs a tenth of making them one by one.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any, TypeVar, cast

import orjson

from lakemq.client.bodies.decoder import Decoder, default_decoder
from lakemq.model.failure import FAILURE_CLASS, FAILURE_TEXT
from lakemq.model.message_queue import MessageQueue
from lakemq.model.names import RETRY_PREFIX

if TYPE_CHECKING:
    import pyarrow as pa

Kind = TypeVar("Kind")
_NOTHING: Mapping[str, str] = {}


class MessageView:
    """One received message. Times are ms since the epoch. A field that the message doesn't have is None."""

    __slots__ = ("_number", "_rows")

    def __init__(self, rows: Rows, number: int) -> None:
        self._rows = rows
        self._number = number

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> MessageView:
        """A message from its JSON."""
        return Rows.of_json([content])[0]

    @property
    def message_id(self) -> str:
        """Identifies the message, for every client."""
        return self._rows.values("message_id")[self._number]

    @property
    def broker(self) -> str:
        """The name of the broker that has the message."""
        return self.message_id.partition(".")[0]

    @property
    def topic(self) -> str:
        """The topic that it was sent to, also for a retry from the group's retry topic."""
        stored = self.stored_topic
        return (self.real_topic or stored) if stored.startswith(RETRY_PREFIX) else stored

    @property
    def stored_topic(self) -> str:
        """The topic that it was read from: `%RETRY%{group}` for a retry."""
        return self._rows.values("stored_topic")[self._number] or self._rows.values("topic")[self._number]

    @property
    def queue_id(self) -> int:
        """The queue of `stored_topic`."""
        return self._rows.values("queue_id")[self._number]

    @property
    def queue(self) -> MessageQueue:
        """The queue that it was read from."""
        return MessageQueue(self.stored_topic, self.broker, self.queue_id)

    @property
    def queue_offset(self) -> int:
        """Its offset in the queue, from 0."""
        return self._rows.values("queue_offset")[self._number]

    @property
    def position(self) -> int:
        """Its position in the broker's log, from 0."""
        return self._rows.values("position")[self._number]

    @property
    def store_time_ms(self) -> int:
        """When the broker stored it."""
        return self._rows.values("store_time_ms")[self._number]

    @property
    def born_time_ms(self) -> int:
        """When the producer created it, or when it was stored."""
        return self._rows.values("born_time_ms")[self._number]

    @property
    def reconsume_times(self) -> int:
        """How often it failed before; 0 the first time."""
        return self._rows.values("reconsume_times")[self._number]

    @property
    def body(self) -> bytes:
        """What was sent."""
        return self._rows.values("body")[self._number]

    @property
    def tag(self) -> str | None:
        """Subscriptions filter by it."""
        return self._rows.values("tag")[self._number]

    @property
    def keys(self) -> Sequence[str]:
        """Use these to look the message up."""
        return self._rows.values("keys")[self._number] or ()

    @property
    def properties(self) -> Mapping[str, str]:
        """Names and values from the producer."""
        return self._rows.values("properties")[self._number] or _NOTHING

    @property
    def ordering_key(self) -> str | None:
        """Messages with the same ordering key are in the same queue."""
        return self._rows.values("ordering_key")[self._number]

    @property
    def deliver_at_ms(self) -> int | None:
        """When a delayed message was due."""
        return self._rows.values("deliver_at_ms")[self._number]

    @property
    def real_topic(self) -> str | None:
        """The topic that a retry or a dead letter was first sent to."""
        return self._rows.values("real_topic")[self._number]

    @property
    def real_queue_id(self) -> int | None:
        """The queue that a retry was first stored in."""
        return self._rows.values("real_queue_id")[self._number]

    @property
    def origin_message_id(self) -> str | None:
        """The id of the original message, for a retry or a delayed message."""
        return self._rows.values("origin_message_id")[self._number]

    @property
    def transaction_id(self) -> str | None:
        """The transaction it came from."""
        return self._rows.values("transaction_id")[self._number]

    @property
    def failure_class(self) -> str | None:
        """The class of the last failure, for a retry or a dead letter."""
        return self.properties.get(FAILURE_CLASS)

    @property
    def failure_text(self) -> str | None:
        """The text of the last failure."""
        return self.properties.get(FAILURE_TEXT)

    @property
    def ttl_ms(self) -> int | None:
        """How long after `store_time_ms` it is delivered, if the message says so itself."""
        return self._rows.values("ttl_ms")[self._number]

    @property
    def priority(self) -> int | None:
        """Its priority, in a topic with priorities."""
        return self._rows.values("priority")[self._number]

    @property
    def receipt(self) -> str | None:
        """Acknowledges a message from `SimpleConsumer.receive`."""
        return self._rows.values("receipt")[self._number]

    @property
    def invisible_until_ms(self) -> int | None:
        """How long nobody else gets it, for a message from `SimpleConsumer.receive`."""
        return self._rows.values("invisible_until_ms")[self._number]

    def count_retry(self) -> None:
        """Increase `reconsume_times` by one, for a retry in place, which the broker doesn't see."""
        values = cast("list[int]", self._rows.values("reconsume_times"))
        values[self._number] += 1

    def replace_receipt(self, receipt: str, invisible_until_ms: int) -> None:
        """Replace this message's receipt."""
        cast("list[str]", self._rows.values("receipt"))[self._number] = receipt
        cast("list[int]", self._rows.values("invisible_until_ms"))[self._number] = invisible_until_ms

    def text(self) -> str:
        """The body as UTF-8 text; raises `UnicodeDecodeError`."""
        return self.body.decode()

    def json(self) -> Any:
        """The body as JSON; raises `ValueError`."""
        return orjson.loads(self.body)

    def decode(self, kind: type[Kind], decoder: Decoder | None = None) -> Kind:
        """The body as a `kind`, decoded with `decoder`, by default the consumer's. Without any, the body is the JSON of
        a pydantic model, a dataclass, an attrs class or a built-in type. Raises `DecodeError`."""
        return (decoder or self._rows.decoder or default_decoder)(self, kind)

    def decode_by(self, decoder: Decoder) -> None:
        """Let `decode` use this decoder, for all messages of the same answer."""
        self._rows.decoder = decoder

    def __repr__(self) -> str:
        shown = self.body[:40]
        more = "…" if len(self.body) > len(shown) else ""
        return f"<MessageView {self.message_id} {self.topic}/{self.queue_id}@{self.queue_offset} {shown!r}{more}>"


class Rows(Sequence[MessageView]):
    """The messages of one answer, in its order. `read` makes one column's values."""

    __slots__ = ("_count", "_made", "_read", "decoder")

    def __init__(self, count: int, read: Callable[[str], Sequence[Any]]) -> None:
        self._count = count
        self._read = read
        self._made: dict[str, Sequence[Any]] = {}
        self.decoder: Decoder | None = None
        """Reads bodies, where a consumer was given one."""

    @classmethod
    def of_table(cls, table: pa.Table) -> Rows:
        """Of an Arrow answer: a table with columns of `lakemq.model.columns.MESSAGE`."""
        return cls(table.num_rows, lambda name: _column_values(table, name))

    @classmethod
    def of_json(cls, messages: Sequence[Mapping[str, Any]]) -> Rows:
        """Of a JSON answer's messages."""
        return cls(len(messages), lambda name: _json_values(messages, name))

    def values(self, name: str) -> Sequence[Any]:
        """One value a message; None where it has none."""
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = self._read(name)
        return made

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return [MessageView(self, number) for number in range(*at.indices(self._count))]
        return MessageView(self, range(self._count)[at])

    def __iter__(self) -> Iterator[MessageView]:
        return map(MessageView, repeat(self), range(self._count))


def _json_values(messages: Sequence[Mapping[str, Any]], name: str) -> Sequence[Any]:
    if name != "body":
        return [message.get(name) for message in messages]
    return [
        b64decode(message["body"]) if message.get("body_encoding") == "base64" else message["body"].encode()
        for message in messages
    ]


def _column_values(table: pa.Table, name: str) -> Sequence[Any]:
    if name not in table.schema.names:
        return [None] * table.num_rows
    column = table.column(name)
    if column.null_count == table.num_rows:
        return [None] * table.num_rows
    if name != "properties":
        return column.to_pylist()
    values: list[Any] = []
    for chunk in column.chunks:
        values += _map_values(chunk)
    return values


def _map_values(maps: pa.MapArray) -> list[dict[str, str] | None]:
    """Each row's map: made of three lists at once, as Arrow's own way takes 9 µs a row."""
    names, values = maps.keys.to_pylist(), maps.items.to_pylist()
    ends = maps.offsets.to_pylist()
    present = maps.is_valid().to_pylist()
    return [
        dict(zip(names[begin:end], values[begin:end], strict=True)) if valid else None
        for begin, end, valid in zip(ends, ends[1:], present, strict=False)
    ]
