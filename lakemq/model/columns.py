"""The columns of a message, as Arrow types.

`STORED` are the columns that a frame holds, each with a bit: a frame leaves out the columns that
are null in all its rows. `COMPUTED` follow from a frame's header. The order of `MESSAGE` is the
order in which the gateway answers them.
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# (pyarrow carries no types)
from __future__ import annotations

import pyarrow as pa

STORED: tuple[pa.Field, ...] = (
    pa.field("body", pa.binary(), nullable=False),
    pa.field("tag", pa.string()),
    pa.field("keys", pa.list_(pa.string())),
    pa.field("properties", pa.map_(pa.string(), pa.string())),
    pa.field("ordering_key", pa.string()),
    pa.field("born_time_ms", pa.int64()),
    pa.field("deliver_at_ms", pa.int64()),
    pa.field("reconsume_times", pa.int32()),
    pa.field("real_topic", pa.string()),
    pa.field("real_queue_id", pa.int32()),
    pa.field("origin_message_id", pa.string()),
    pa.field("transaction_id", pa.string()),
    pa.field("cause", pa.int64()),
    pa.field("group", pa.string()),
    pa.field("check_times", pa.int32()),
    pa.field("retry_topic", pa.string()),
)
"""A column's bit in a frame's mask is its index here: append only, never reorder."""

CONTROL: tuple[str, ...] = ("cause", "group", "check_times", "retry_topic")
"""Columns that route messages (docs/routing.md): not answered to pulls.

`cause`: the position of what this message is the one effect of. `group`: the producer group of a
half or an operation, the consumer group of a nack or a dead letter. `check_times`: how often a half
was checked. `retry_topic`: the topic of the first, while a retry waits in the schedule topic.
"""

COMPUTED: tuple[pa.Field, ...] = (
    pa.field("message_id", pa.string(), nullable=False),
    pa.field("topic", pa.string(), nullable=False),
    pa.field("queue_id", pa.int32(), nullable=False),
    pa.field("queue_offset", pa.int64(), nullable=False),
    pa.field("position", pa.int64(), nullable=False),
    pa.field("store_time_ms", pa.int64(), nullable=False),
)

MESSAGE: pa.Schema = pa.schema([*COMPUTED, *(field for field in STORED if field.name not in CONTROL)])
"""A message on the way out: `born_time_ms` and `reconsume_times` are never null there."""

SIZE = pa.field("size", pa.int32(), nullable=False)
"""The body's length in bytes: for readers of the log that leave the body out."""

REQUEST: pa.Schema = pa.schema(
    [
        pa.field("body", pa.binary(), nullable=False),
        pa.field("tag", pa.string()),
        pa.field("keys", pa.list_(pa.string())),
        pa.field("properties", pa.map_(pa.string(), pa.string())),
        pa.field("ordering_key", pa.string()),
        pa.field("queue_id", pa.int32()),
        pa.field("deliver_at_ms", pa.int64()),
        pa.field("born_time_ms", pa.int64()),
    ]
)
"""A message on the way in, as an Arrow stream; only `body` is needed."""

SINK: pa.Schema = REQUEST.append(pa.field("origin_message_id", pa.string()))
"""A message on the way in through a sink: it may say of which first message it is a copy."""

STORED_NAMES: tuple[str, ...] = tuple(field.name for field in STORED)
STORED_BIT: dict[str, int] = {name: bit for bit, name in enumerate(STORED_NAMES)}


def stored_schema(mask: int) -> pa.Schema:
    """The schema of a frame's payload whose header holds `mask`, one bit a column of `STORED`."""
    return pa.schema([field for bit, field in enumerate(STORED) if mask >> bit & 1])
