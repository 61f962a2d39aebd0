"""How much there may be, and for how long: of topics, groups, and what waits for an answer."""

from __future__ import annotations

from pydantic import Field

from lakemq.settings.section import GIB, HOUR_MS, MIB, Section


class Topics(Section):
    """How topics come to be, and how many: `queues_max` of one topic, `all_queues_max` of all together."""

    auto_create: bool = True
    """Whether the first message makes a topic."""
    default_queues: int = Field(default=4, ge=1, le=1024)
    """So many queues a topic has that was made without a number."""
    queues_max: int = Field(default=1024, ge=1, le=65_535)
    topics_max: int = Field(default=10_000, ge=1)
    """So many topics."""
    all_queues_max: int = Field(default=100_000, ge=1)
    schemas_bytes_max: int = Field(default=4 * 1024 * 1024, ge=0, le=64 * 1024 * 1024)
    """So much text all schemas of topics may have, with all their versions."""


class Idempotency(Section):
    """How long, and for how many keys, a repeated request is answered with the first result."""

    window_ms: int = Field(default=600_000, ge=0)
    """How long."""
    keys_max: int = Field(default=200_000, ge=1)
    """How many keys; past that the oldest is forgotten early, and counted."""


class Groups(Section):
    """Consumer groups. A member that isn't heard of for `member_expiry_ms` is gone; a lock that isn't
    renewed for `lock_expiry_ms` is free. The bounds are of all groups together."""

    member_expiry_ms: int = Field(default=120_000, ge=100, le=24 * HOUR_MS)
    lock_expiry_ms: int = Field(default=60_000, ge=100, le=24 * HOUR_MS)
    groups_max: int = Field(default=10_000, ge=1)
    """So many groups."""
    members_max: int = Field(default=20_000, ge=1)
    """So many members of all groups."""
    member_characters_max: int = Field(default=32 * MIB, ge=1)
    """So many characters in the subscriptions of all members."""
    offsets_max: int = Field(default=200_000, ge=1)
    """So many committed offsets."""
    locks_max: int = Field(default=200_000, ge=1)
    """So many locks of queues."""


class Requests(Section):
    """Requests that wait for a reply: so many at a time."""

    waiting_max: int = Field(default=10_000, ge=1)
    """How many."""


class Receive(Section):
    """What is handed out to be acknowledged: so many messages at most are out, of all groups together
    and of each, and so many groups' places in topics are kept: where nobody received for `idle_ms`, a place gives way
    to a new one."""

    out_max: int = Field(default=100_000, ge=1, le=10_000_000)
    """Messages out, of all groups."""
    group_out_max: int = Field(default=50_000, ge=1, le=10_000_000)
    """Messages out, of one group."""
    subscriptions_max: int = Field(default=10_000, ge=1)
    """Places of groups in topics."""
    idle_ms: int = Field(default=24 * HOUR_MS, ge=0)
    messages_per_call_max: int = Field(default=1_000, ge=1, le=10_000)
    """A receive may ask for so many."""
    receipts_per_call_max: int = Field(default=10_000, ge=1, le=100_000)
    """An acknowledgement may have so many receipts."""
    invisible_ms_max: int = Field(default=12 * HOUR_MS, ge=1, le=7 * 24 * HOUR_MS)
    """How long a message may be asked to be invisible."""


class Sinks(Section):
    """Batches of messages that are committed as one (docs/lake.md, "The sink"): so many sinks are known,
    so many bytes of parts wait for their commit. Parts that wait, and sinks of one batch, are forgotten
    after `keep_ms`."""

    sinks_max: int = Field(default=1_000, ge=1)
    """How many sinks."""
    staged_bytes_max: int = Field(default=8 * GIB, ge=MIB)
    """Bytes of parts without a commit."""
    staged_parts_max: int = Field(default=100_000, ge=1)
    """Parts without a commit."""
    keep_ms: int = Field(default=24 * HOUR_MS, ge=1_000)
