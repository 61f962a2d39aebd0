"""The state that the log makes: what a frame does to it, and the frame that holds all of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from lakemq.storage.segment.content import Content, decode_content
from lakemq.storage.segment.frame import ALIGNMENT, KIND_HOLE, KIND_MESSAGES, KIND_STATE, LogEpoch, Meta, encode
from lakemq.storage.segment.large_json import to_json
from lakemq.storage.segment.mask import Payload
from lakemq.storage.state.log_state import LogState
from lakemq.storage.state.routing_state import CAUSE_MASK
from lakemq.storage.state.topics import TOPICS_TOPIC, TopicTable, says_something


def encode_state(log: LogEpoch, state: dict[str, Any], position: int, store_time_ms: int) -> tuple[bytes, Payload]:
    """A state frame (`LogState.dump()`), as what stands before its payload, and the payload; `replay` reads it."""
    payload = b"".join(to_json(state))
    payload += b" " * (-len(payload) % ALIGNMENT)
    return encode(log, KIND_STATE, position, store_time_ms, 0, 0, [], b"", payload)


def replay(state: LogState, meta: Meta, payload: memoryview) -> None:
    """Bring `state` from before the frame to after it."""
    if meta.kind == KIND_STATE:
        state.restore(json.loads(bytes(payload)))
    move_on(state, meta, lambda: decode_content(meta, payload))


def move_on(state: LogState, meta: Meta, content: Callable[[], Content]) -> None:
    """`replay` of a frame that isn't a state; `content` gives its rows, which most frames aren't asked for."""
    if begins_epoch(state.identity.now, meta):
        state.topics.pass_over(meta.count)
    state.identity.apply(meta)
    # First the runs: a deleted topic hides what came in the frame of its deletion too.
    advance(state.topics, meta)
    if meta.kind == KIND_MESSAGES and _says_something(meta):
        apply(state, meta, content())


def begins_epoch(log: LogEpoch, meta: Meta) -> bool:
    """Whether the frame, which follows those of `log`, is a hole that begins an epoch in which so many messages may be
    lost, of any queue, that none has that many offsets left to give. One with runs says that none is."""
    is_next = meta.log.log_id == log.log_id and meta.log.epoch > log.epoch
    return meta.kind == KIND_HOLE and is_next and not meta.runs


def _says_something(meta: Meta) -> bool:
    return bool(meta.columns & CAUSE_MASK) or any(says_something(run.topic) for run in meta.runs)


def apply(state: LogState, meta: Meta, content: Content) -> None:
    """Carry out what the frame's rows say, beside being messages."""
    for topic, queues in apply_records(state.topics, meta, content):
        state.groups.topic_changed(topic, queues)
        if not queues:
            state.routing.receipts.forget_topic(topic)
    state.routing.apply(meta, content)
    state.groups.apply(meta, content)
    state.sinks.apply(meta, content)
    state.access.apply(meta, content)


def advance(topics: TopicTable, meta: Meta) -> None:
    """Move the queues past the frame's runs."""
    for run in meta.runs:
        topics.ensure_queue(run.topic, run.queue_id).next_offset = run.first_queue_offset + run.count


def apply_records(topics: TopicTable, meta: Meta, content: Content) -> list[tuple[str, int]]:
    """Carry out the topics' records among the frame's rows; returns the topics that have another
    number of queues now, each with it."""
    changed: list[tuple[str, int]] = []
    for run in meta.runs:
        if run.topic == TOPICS_TOPIC:
            bodies, first = content.values("body", run.row, run.count), meta.first_position + run.row
            made = map(topics.apply_body, bodies, range(first, first + run.count))
            changed += [change for change in made if change is not None]
    return changed
