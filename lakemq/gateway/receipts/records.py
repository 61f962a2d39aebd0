"""Receipts and acknowledgements as the log holds them: a few row by row, many column by column."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import count, repeat
from typing import Any

import pyarrow as pa

from lakemq.gateway.receipts.receive_request import Chosen, ReceiveRequest, values
from lakemq.model.columns import STORED, STORED_BIT
from lakemq.storage.segment.content import ROWS_MAX, Columns, Content, Rows
from lakemq.storage.segment.rows import Row, cached_schema, make_row
from lakemq.storage.segment.slice import Slice
from lakemq.storage.state.message_ids import MessageIds
from lakemq.storage.state.receipts import BODY_BYTES, NO_CAUSE, Handed, Out

_UNIFORM_ROWS = 1_024
_FIELDS = Handed._fields
_MESSAGE = _FIELDS.index("message")


def receipts(wanted: ReceiveRequest, chosen: list[Chosen], until_ms: int, ids: MessageIds) -> Content:
    """The receipts of all that was chosen, in its order."""
    pieces = [(some, part) for some in chosen for part in some.parts]
    if sum([part.count for _, part in pieces]) <= ROWS_MAX:
        return Rows([row for some, part in pieces for row in _receipt_rows(wanted, some, part, until_ms, ids)])
    return Columns(_receipts_batch(wanted, chosen, pieces, until_ms, ids))


def _receipt_rows(wanted: ReceiveRequest, some: Chosen, part: Slice, until_ms: int, ids: MessageIds) -> Iterator[Row]:
    queue, most = some.queue, wanted.max_reconsume_times
    places = zip(count(part.first_queue_offset), count(part.first_position))
    given = zip(places, values(part, "reconsume_times"), values(part, "ordering_key"), strict=False)
    for (offset, position), retried, order in given:
        place = offset, some.low, most, position, retried or 0
        yield _receipt_row(
            Handed(*place, until_ms, queue.queue_id, NO_CAUSE, some.resets),
            ids,
            properties={"max_reconsume_times": str(most)},
            ordering_key=order,
            real_topic=queue.topic,
            group=wanted.group,
            retry_topic=None if queue.topic == wanted.topic else wanted.topic,
        )


def _receipt_row(handed: Handed, ids: MessageIds, **columns: object) -> Row:
    return make_row(
        body=array("q", handed).tobytes(),
        deliver_at_ms=handed.until_ms,
        reconsume_times=handed.reconsume_times,
        real_queue_id=handed.queue_id,
        origin_message_id=ids.of(handed.message),
        **columns,
    )


def _receipts_batch(
    wanted: ReceiveRequest, chosen: list[Chosen], pieces: list[tuple[Chosen, Slice]], until_ms: int, ids: MessageIds
) -> pa.RecordBatch:
    times = [retried or 0 for _, part in pieces for retried in values(part, "reconsume_times")]
    keys = [key for _, part in pieces for key in values(part, "ordering_key")]
    numbers = _numbers(pieces, times, wanted.max_reconsume_times, until_ms)
    count = len(times)
    columns = {
        "body": _bodies(numbers),
        "properties": _options(wanted.max_reconsume_times, count),
        "ordering_key": None if keys.count(None) == count else pa.array(keys, pa.string()),
        "deliver_at_ms": _repeat(until_ms, "deliver_at_ms", count),
        "reconsume_times": pa.array(times, pa.int32()),
        "real_topic": _runs([(some.queue.topic, some.count_rows) for some in chosen], "real_topic"),
        "real_queue_id": _runs([(some.queue.queue_id, some.count_rows) for some in chosen], "real_queue_id"),
        "origin_message_id": pa.array(ids.texts(numbers[_MESSAGE :: len(_FIELDS)]), pa.string()),
        "group": _uniform(wanted.group, "group", count),
        "retry_topic": _retry_topics(wanted, chosen),
    }
    return _batch({name: column for name, column in columns.items() if column is not None})


def _numbers(pieces: list[tuple[Chosen, Slice]], times: list[int], most: int, until_ms: int) -> array[int]:
    """The numbers of all bodies: set column by column, which costs a tenth of row by row."""
    count, width = len(times), len(_FIELDS)
    numbers = array("q", bytes(BODY_BYTES * count))
    at = 0
    for (queue, _, low, resets, _), part in pieces:
        rows = part.count
        end = (at + rows) * width
        offset, position = part.first_queue_offset, part.first_position
        columns: dict[str, Iterable[int]] = {
            "offset": range(offset, offset + rows),
            "low": repeat(low, rows),
            "max_reconsume_times": repeat(most, rows),
            "message": range(position, position + rows),
            "reconsume_times": times[at : at + rows],
            "until_ms": repeat(until_ms, rows),
            "queue_id": repeat(queue.queue_id, rows),
            "cause": repeat(NO_CAUSE, rows),
            "resets": repeat(resets, rows),
        }
        for number, name in enumerate(_FIELDS):
            numbers[at * width + number : end : width] = array("q", columns[name])
        at += rows
    return numbers


def _retry_topics(wanted: ReceiveRequest, chosen: list[Chosen]) -> pa.Array | None:
    """The topic that was asked for, where a message comes from the group's retries."""
    if all(some.queue.topic == wanted.topic for some in chosen):
        return None
    named = [(None if some.queue.topic == wanted.topic else wanted.topic, some.count_rows) for some in chosen]
    return _runs(named, "retry_topic")


def acks(group: str, outs: dict[int, Out]) -> Content:
    """The acknowledgements of receipts. They name the time of each too: by that the query knows it."""
    count = len(outs)
    if count <= ROWS_MAX:
        named = outs.items()
        return Rows([make_row(body=b"", deliver_at_ms=out.until_ms, cause=cause, group=group) for cause, out in named])
    return Columns(
        _batch(
            {
                "body": _uniform(b"", "body", count),
                "deliver_at_ms": pa.array([out.until_ms for out in outs.values()], pa.int64()),
                "cause": pa.array(list(outs), pa.int64()),
                "group": _uniform(group, "group", count),
            }
        )
    )


def changed_row(out: Out, receipt: int, until_ms: int, ids: MessageIds) -> Row:
    """The receipt that takes the place of another."""
    cursor, subscription, most = out.cursor, out.subscription, out.max_reconsume_times
    handed = Handed(
        *(out.offset, cursor.low, most, out.message, out.reconsume_times),
        *(until_ms, cursor.queue_id, receipt, cursor.resets),
    )
    return _receipt_row(
        handed,
        ids,
        # The query knows the other receipt by its time too.
        properties={"max_reconsume_times": str(most), "replaced_until_ms": str(out.until_ms)},
        ordering_key=out.order if isinstance(out.order, str) else None,
        real_topic=cursor.source,
        cause=receipt,
        group=subscription.group,
        retry_topic=None if cursor.source == subscription.topic else subscription.topic,
    )


def _batch(columns: dict[str, pa.Array]) -> pa.RecordBatch:
    """A frame's batch of columns that stand in the order of `STORED`."""
    mask = sum([1 << STORED_BIT[name] for name in columns])
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=cached_schema(mask))


def _bodies(numbers: array[int]) -> pa.Array:
    data = numbers.tobytes()
    count = len(data) // BODY_BYTES
    offsets = array("i", range(0, len(data) + 1, BODY_BYTES))
    return pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _repeat(value: object, name: str, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, STORED[STORED_BIT[name]].type), count)


def _uniform(value: object, name: str, count: int) -> pa.Array:
    return _repeat(value, name, count) if count > _UNIFORM_ROWS else _ready(value, name).slice(0, count)


@lru_cache(maxsize=1_024)
def _ready(value: object, name: str) -> pa.Array:
    return _repeat(value, name, _UNIFORM_ROWS)


def _runs(runs: list[tuple[Any, int]], name: str) -> pa.Array:
    """A column of values, each as often as said."""
    pieces = [_uniform(value, name, count) for value, count in runs]
    return pieces[0] if len(pieces) == 1 else pa.concat_arrays(pieces)


def _options(max_reconsume_times: int, count: int) -> pa.Array:
    if count > _UNIFORM_ROWS:
        return _map_column(max_reconsume_times, count)
    return _ready_options(max_reconsume_times).slice(0, count)


@lru_cache(maxsize=64)
def _ready_options(max_reconsume_times: int) -> pa.Array:
    return _map_column(max_reconsume_times, _UNIFORM_ROWS)


def _map_column(max_reconsume_times: int, count: int) -> pa.Array:
    names, texts = pa.array(["max_reconsume_times"] * count), pa.array([str(max_reconsume_times)] * count)
    return pa.MapArray.from_arrays(pa.array(range(count + 1), pa.int32()), names, texts)
