"""Which queue each message of a request goes to, and its row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute

from lakemq.gateway.decode import ArrowRows
from lakemq.model.columns import STORED_BIT, STORED_NAMES, stored_schema
from lakemq.model.delay import due_time
from lakemq.model.errors import InvalidRequest, QueueNotFound
from lakemq.model.hashing import queue_of_ordering_key
from lakemq.model.message import Draft
from lakemq.model.priority import LOWEST, queue_of
from lakemq.model.topic_config import DELAYED, HALF, KEY, PRIORITISED, PRIORITY, QUEUE, check
from lakemq.settings import Delay
from lakemq.storage.log.appends import BatchAppend
from lakemq.storage.segment.rows import Row, batch_mask, make_row
from lakemq.storage.state.topics import Queue, Topic

# Its functions are made as it is imported: no type checker sees them.
pc: Any = pyarrow.compute


def place_draft(draft: Draft, topic: Topic, *, half: bool = False) -> Queue:
    """The queue of one message: the one it names, its priority's, its ordering key's, or the next in turn.

    Raises `QueueNotFound`, and `WrongMessageType` or `MessageTooLarge` where the topic takes no such message; `half`:
    it is one of a transaction.
    """
    if topic.restricts or draft.priority is not None:
        check_draft(draft, topic, half=half)
        if topic.config.message_type == PRIORITY:
            draft = draft._replace(queue_id=queue_of(draft.priority, draft.queue_id, len(topic.queues), topic.name))
    if draft.queue_id is not None:
        if draft.queue_id >= len(topic.queues):
            raise _no_queue(topic, draft.queue_id)
        return topic.queues[draft.queue_id]
    if draft.ordering_key is not None:
        return topic.queues[queue_of_ordering_key(draft.ordering_key, len(topic.queues))]
    return topic.next_queue()


def check_draft(draft: Draft, topic: Topic, *, half: bool = False) -> None:
    """Raise `WrongMessageType` or `MessageTooLarge` where the topic takes no such message."""
    said = {
        KEY: draft.ordering_key is not None,
        QUEUE: draft.queue_id is not None,
        DELAYED: bool(draft.delay_level or draft.delay_ms) or draft.deliver_at_ms is not None,
        HALF: half,
        PRIORITISED: draft.priority is not None,
    }
    traits = frozenset([trait for trait, has in said.items() if has])
    check(topic.config, topic.name, traits, traits, len(draft.body))


def check_rows(batch: pa.RecordBatch, topic: Topic, half: bool = False) -> None:
    """`check_draft` for all rows of a batch of messages."""
    has_priorities = _valid(batch, "priority")
    if not topic.restricts and not has_priorities:
        return
    counts = {
        KEY: _valid(batch, "ordering_key"),
        QUEUE: _valid(batch, "queue_id"),
        DELAYED: _valid(batch, "deliver_at_ms"),
        HALF: batch.num_rows if half else 0,
        PRIORITISED: has_priorities,
    }
    every = {trait for trait, count in counts.items() if count == batch.num_rows}
    if counts[KEY] and counts[QUEUE] and not every:
        either = pc.or_(*(pc.is_valid(batch.column(name)) for name in ("ordering_key", "queue_id")))
        every |= {QUEUE} if pc.all(either).as_py() else set()
    some = frozenset([trait for trait, count in counts.items() if count])
    most = pc.max(pc.binary_length(batch.column("body"))).as_py()
    check(topic.config, topic.name, frozenset(every), some, most)
    if topic.config.message_type == PRIORITY and has_priorities:
        _check_priorities(batch, topic, has_queues=counts[QUEUE] > 0)


def _check_priorities(batch: pa.RecordBatch, topic: Topic, has_queues: bool) -> None:
    priorities = batch.column("priority")
    queue_of(pc.max(priorities).as_py(), None, len(topic.queues), topic.name)
    if has_queues:
        other = pc.fill_null(pc.not_equal(batch.column("queue_id"), priorities), False)
        if pc.any(other).as_py():
            row = pc.index(other, True).as_py()
            queue_of(priorities[row].as_py(), batch.column("queue_id")[row].as_py(), len(topic.queues), topic.name)


def _valid(batch: pa.RecordBatch, name: str) -> int:
    """How many rows have something in the column."""
    return batch.num_rows - batch.column(name).null_count if name in batch.schema.names else 0


def due_of(draft: Draft, now_ms: int, delays: Delay) -> int | None:
    """When the message is to be delivered; None: at once. Raises `InvalidRequest` for a delay of
    more than `delay.delay_ms_max`."""
    due = due_time(now_ms, delays.levels, draft.delay_level, draft.delay_ms, draft.deliver_at_ms)
    if due is not None and due - now_ms > delays.delay_ms_max:
        raise _too_late(due - now_ms, delays)
    return due


def row_of(draft: Draft, **routing: object) -> Row:
    """The stored columns of one message, and what routes it."""
    for at, name in _OF_DRAFT:
        value = draft[at]
        if value is not None:
            routing[name] = value
    return make_row(**routing)


_OF_DRAFT = [(at, name) for at, name in enumerate(Draft._fields) if name in STORED_NAMES and name != "deliver_at_ms"]
"""When a message is due follows from three fields of a draft: the caller says it, of one that is to wait."""


def place_batch(rows: ArrowRows, topic: Topic) -> BatchAppend:
    """Where the rows of an Arrow request go that are delivered at once.

    Rows that name no queue and have no ordering key go to one queue together, each request to the
    next: so they stay in one run and no row is moved. Raises `QueueNotFound`.
    """
    batch = rows.batch
    stored = _stored(batch)
    queue_ids = _queue_ids(batch, topic)
    if queue_ids is None:
        return BatchAppend.of(stored, [(topic.next_queue(), batch.num_rows)])
    counts = queue_ids.value_counts().to_pylist()
    if len(counts) > 1:
        order = pc.call_function("array_sort_indices", [queue_ids])
        stored = stored.take(order)
    groups = sorted((entry["values"], entry["counts"]) for entry in counts)
    return BatchAppend.of(stored, [(topic.queues[queue_id], count) for queue_id, count in groups])


def later_rows(rows: ArrowRows, now_ms: int, delays: Delay) -> pa.Array | None:
    """Which rows are to be delivered later; None when none are. Raises `InvalidRequest`."""
    if "deliver_at_ms" not in rows.batch.schema.names:
        return None
    column = rows.batch.column("deliver_at_ms")
    latest = pc.call_function("max", [column]).as_py()
    if latest is None or latest <= now_ms:
        return None
    if latest - now_ms > delays.delay_ms_max:
        raise _too_late(latest - now_ms, delays)
    return pc.fill_null(pc.call_function("greater", [column, pa.scalar(now_ms, pa.int64())]), False)


def place_aside(
    rows: ArrowRows,
    topic: Topic,
    aside: pa.Array,
    queue: Queue,
    group: str | None = None,
    due_ms: int | None = None,
) -> BatchAppend:
    """`place_batch`, but the rows in the mask `aside` go to `queue`, last, with their real topic and queue, and
    the group. They are due then, or else when they say."""
    batch = rows.batch
    queue_ids = _queue_ids(batch, topic)
    if queue_ids is None:
        queue_ids = pa.repeat(pa.scalar(topic.next_queue().queue_id, pa.int32()), batch.num_rows)
    stored = _stored(batch)
    columns = dict(zip(stored.schema.names, stored.columns, strict=True))
    routing = {"real_topic": topic.name} if group is None else {"real_topic": topic.name, "group": group}
    for name, value in routing.items():
        columns[name] = _where(aside, pa.scalar(value, pa.string()))
    if due_ms is not None:
        columns["deliver_at_ms"] = _where(aside, pa.scalar(due_ms, pa.int64()))
    columns["real_queue_id"] = _where(aside, queue_ids.cast(pa.int32()))
    names = [name for name in STORED_NAMES if name in columns]
    mask = sum(1 << STORED_BIT[name] for name in names)
    made = pa.RecordBatch.from_arrays([columns[name] for name in names], schema=stored_schema(mask))
    # Those that go to the topic itself have its queues' ids, the others one above all of them.
    keys = pc.call_function("if_else", [aside, pa.scalar(len(topic.queues), pa.int32()), queue_ids.cast(pa.int32())])
    order = pc.call_function("array_sort_indices", [keys])
    counts = sorted((entry["values"], entry["counts"]) for entry in keys.value_counts().to_pylist())
    queues = [*topic.queues, queue]
    return BatchAppend.of(made.take(order), [(queues[key], count) for key, count in counts])


def _where(mask: pa.Array, values: pa.Array | pa.Scalar) -> pa.Array:
    return pc.call_function("if_else", [mask, values, pa.scalar(None, values.type)])


def _stored(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Those columns of a request that are stored, without those that are null in all rows."""
    names = batch.schema.names
    wanted = [
        name
        for name in STORED_NAMES
        if name in names and (name == "body" or batch.column(name).null_count < batch.num_rows)
    ]
    stored = batch.select(wanted)
    return pa.RecordBatch.from_arrays(stored.columns, schema=stored_schema(batch_mask(stored)))


def _queue_ids(batch: pa.RecordBatch, topic: Topic) -> pa.Array | None:
    """Each row's queue, or None when no row says anything of it."""
    names = batch.schema.names
    queue_ids = batch.column("queue_id") if "queue_id" in names else None
    keys = batch.column("ordering_key") if "ordering_key" in names else None
    if queue_ids is not None and queue_ids.null_count == batch.num_rows:
        queue_ids = None
    if topic.config.message_type == PRIORITY:
        queue_ids, keys = _by_priority(batch, queue_ids, len(topic.queues)), None
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


def _by_priority(batch: pa.RecordBatch, queue_ids: pa.Array | None, queues: int) -> pa.Array:
    """Each row's queue in a topic of priorities. A topic that was made anew since they were checked may have fewer."""
    lowest = pa.scalar(LOWEST, pa.int32())
    if not _valid(batch, "priority"):
        return pa.repeat(lowest, batch.num_rows) if queue_ids is None else pc.fill_null(queue_ids, lowest)
    known = pc.min_element_wise(batch.column("priority"), pa.scalar(queues - 1, pa.int32()), skip_nulls=False)
    return pc.coalesce(known, *(() if queue_ids is None else (queue_ids,)), lowest)


def _hash_keys(keys: pa.Array, queues: int) -> pa.Array:
    encoded = keys.dictionary_encode()
    hashes = [queue_of_ordering_key(key, queues) for key in encoded.dictionary.to_pylist()]
    return pa.array(hashes, type=pa.int32()).take(encoded.indices)


def _no_queue(topic: Topic, queue_id: int) -> QueueNotFound:
    return QueueNotFound(f"topic {topic.name!r} has queues 0 to {len(topic.queues) - 1}, not {queue_id}")


def _too_late(delay_ms: int, delays: Delay) -> InvalidRequest:
    return InvalidRequest(f"the message would be delivered in {delay_ms} ms; at most {delays.delay_ms_max} are allowed")
