"""What a frame of the log does to the state that the log makes."""

from __future__ import annotations

import json

from lakemq.storage.frame import KIND_MESSAGES, KIND_STATE, Meta
from lakemq.storage.rows import decode_payload
from lakemq.storage.topics import TOPICS_TOPIC, TopicTable


def replay(topics: TopicTable, meta: Meta, payload: memoryview) -> None:
    """Bring `topics` from before the frame to after it."""
    if meta.kind == KIND_STATE:
        topics.restore(json.loads(bytes(payload))["topics"])
    # First the runs: a deleted topic hides what came in the frame of its deletion too.
    advance(topics, meta)
    for run in meta.runs:
        if run.topic == TOPICS_TOPIC and meta.kind == KIND_MESSAGES:
            bodies = decode_payload(meta.columns, payload).column("body").slice(run.row, run.count)
            for body in bodies.to_pylist():
                topics.apply_body(body)


def advance(topics: TopicTable, meta: Meta) -> None:
    """Move the queues past the frame's runs."""
    for run in meta.runs:
        topics.ensure_queue(run.topic, run.queue_id).next_offset = run.first_queue_offset + run.count
