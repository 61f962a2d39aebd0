"""Which queue each message of a request goes to, and its row."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from lakemq.gateway.decode import ArrowRows
from lakemq.model.columns import STORED_NAMES, stored_schema
from lakemq.model.errors import InvalidRequest, QueueNotFound
from lakemq.model.hashing import queue_of_ordering_key
from lakemq.model.message import Draft
from lakemq.storage.rows import Row, batch_mask, make_row
from lakemq.storage.topics import Queue, Topic

_DELAYS = "delay_level", "delay_ms", "deliver_at_ms"


def place_draft(draft: Draft, topic: Topic) -> Queue:
    """The queue of one message: the one it names, its ordering key's, or the next in turn.

    Raises `QueueNotFound`.
    """
    if draft.queue_id is not None:
        if draft.queue_id >= len(topic.queues):
            raise _no_queue(topic, draft.queue_id)
        return topic.queues[draft.queue_id]
    if draft.ordering_key is not None:
        return topic.queues[queue_of_ordering_key(draft.ordering_key, len(topic.queues))]
    return topic.next_queue()


def row_of(draft: Draft) -> Row:
    """The stored columns of one message. Raises `InvalidRequest` for a delay."""
    for name in _DELAYS:
        if getattr(draft, name):
            raise _no_delays(name)
    return make_row(
        body=draft.body,
        tag=draft.tag,
        keys=draft.keys,
        properties=draft.properties,
        ordering_key=draft.ordering_key,
        born_time_ms=draft.born_time_ms,
    )


def place_batch(rows: ArrowRows, topic: Topic) -> tuple[pa.RecordBatch, list[tuple[Queue, int]]]:
    """The stored columns of an Arrow request, its rows grouped by queue, and the groups.

    Rows that name no queue and have no ordering key go to one queue together, each request to the
    next: so they stay in one run and no row is moved. Raises `QueueNotFound`, `InvalidRequest`.
    """
    batch = rows.batch
    names = batch.schema.names
    if "deliver_at_ms" in names and batch.column("deliver_at_ms").null_count < batch.num_rows:
        raise _no_delays("deliver_at_ms")
    wanted = [
        name
        for name in STORED_NAMES
        if name in names and (name == "body" or batch.column(name).null_count < batch.num_rows)
    ]
    stored = batch.select(wanted)
    stored = pa.RecordBatch.from_arrays(stored.columns, schema=stored_schema(batch_mask(stored)))
    queue_ids = _queue_ids(batch, topic)
    if queue_ids is None:
        return stored, [(topic.next_queue(), batch.num_rows)]
    counts = queue_ids.value_counts().to_pylist()
    if len(counts) > 1:
        order = pc.call_function("array_sort_indices", [queue_ids])
        stored = stored.take(order)
    groups = sorted((entry["values"], entry["counts"]) for entry in counts)
    return stored, [(topic.queues[queue_id], count) for queue_id, count in groups]


def _queue_ids(batch: pa.RecordBatch, topic: Topic) -> pa.Array | None:
    """Each row's queue, or None when no row says anything of it."""
    names = batch.schema.names
    queue_ids = batch.column("queue_id") if "queue_id" in names else None
    keys = batch.column("ordering_key") if "ordering_key" in names else None
    if queue_ids is not None and queue_ids.null_count == batch.num_rows:
        queue_ids = None
    if keys is not None and keys.null_count == batch.num_rows:
        keys = None
    if queue_ids is None and keys is None:
        return None
    if queue_ids is not None:
        highest = pc.call_function("max", [queue_ids]).as_py()
        if highest >= len(topic.queues):
            raise _no_queue(topic, highest)
    if queue_ids is None:
        queue_ids = _hash_keys(keys, len(topic.queues))
    elif keys is not None:
        hashed = _hash_keys(keys, len(topic.queues))
        queue_ids = pc.call_function("coalesce", [queue_ids, hashed])
    if queue_ids.null_count:
        queue_ids = pc.fill_null(queue_ids, topic.next_queue().queue_id)
    return queue_ids


def _hash_keys(keys: pa.Array, queues: int) -> pa.Array:
    encoded = keys.dictionary_encode()
    hashes = [queue_of_ordering_key(key, queues) for key in encoded.dictionary.to_pylist()]
    return pa.array(hashes, type=pa.int32()).take(encoded.indices)


def _no_queue(topic: Topic, queue_id: int) -> QueueNotFound:
    return QueueNotFound(f"topic {topic.name!r} has queues 0 to {len(topic.queues) - 1}, not {queue_id}")


def _no_delays(name: str) -> InvalidRequest:
    return InvalidRequest(f"{name}: this version of lakemq does not deliver later; leave it out")
