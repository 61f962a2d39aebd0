"""The state that the log makes: what a frame does to it, and the frame that holds all of it."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from lakemq.storage.frame import ALIGNMENT, KIND_MESSAGES, KIND_STATE, Meta, encode
from lakemq.storage.rows import decode_payload
from lakemq.storage.topics import TOPICS_TOPIC, TopicTable


def encode_state(topics: list[dict[str, Any]], position: int, store_time_ms: int, salt: int) -> tuple[bytes, bytes]:
    """A state frame with these topics (`TopicTable.dump()`), as what stands before its payload, and
    the payload; `replay` reads it."""
    payload = json.dumps({"topics": topics}, separators=(",", ":")).encode()
    payload += b" " * (-len(payload) % ALIGNMENT)
    return encode(KIND_STATE, position, store_time_ms, 0, 0, [], b"", payload, salt), payload


def replay(topics: TopicTable, meta: Meta, payload: memoryview) -> None:
    """Bring `topics` from before the frame to after it."""
    if meta.kind == KIND_STATE:
        topics.restore(json.loads(bytes(payload))["topics"])
    # First the runs: a deleted topic hides what came in the frame of its deletion too.
    advance(topics, meta)
    if meta.kind == KIND_MESSAGES and any(run.topic == TOPICS_TOPIC for run in meta.runs):
        apply_records(topics, meta, decode_payload(meta.columns, payload))


def advance(topics: TopicTable, meta: Meta) -> None:
    """Move the queues past the frame's runs."""
    for run in meta.runs:
        topics.ensure_queue(run.topic, run.queue_id).next_offset = run.first_queue_offset + run.count


def apply_records(topics: TopicTable, meta: Meta, batch: pa.RecordBatch) -> None:
    """Carry out the topics' records among the frame's rows."""
    for run in meta.runs:
        if run.topic == TOPICS_TOPIC:
            for body in batch.column("body").slice(run.row, run.count).to_pylist():
                topics.apply_body(body)
