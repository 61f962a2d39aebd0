"""How much there may be, and for how long: of topics, groups, and what waits for an answer."""

from __future__ import annotations

from pydantic import Field

from lakemq.settings.section import GIB, HOUR_MS, MIB, Section


class Topics(Section):
    """How topics are created, and their limits: `queues_max` of one topic, `all_queues_max` of all together."""

    auto_create: bool = True
    """Whether the first message creates a topic."""
    default_queues: int = Field(default=4, ge=1, le=1024)
    """The number of queues of a topic that was created without one."""
    queues_max: int = Field(default=1024, ge=1, le=65_535)
    topics_max: int = Field(default=10_000, ge=1)
    """The most topics."""
    all_queues_max: int = Field(default=100_000, ge=1)
    schemas_bytes_max: int = Field(default=4 * 1024 * 1024, ge=0, le=64 * 1024 * 1024)
    """The text of all schemas of topics together, with all their versions."""


class Idempotency(Section):
    """How long, and for how many keys, a repeated request is answered with the first result."""

    window_ms: int = Field(default=600_000, ge=0)
    """How long."""
    keys_max: int = Field(default=200_000, ge=1)
    """The most keys; beyond that the oldest is forgotten early, and counted."""


class Groups(Section):
    """Consumer groups. A member that sends no heartbeat for `member_expiry_ms` is removed; a lock that isn't
    renewed for `lock_expiry_ms` is released. The limits are for all groups together."""

    member_expiry_ms: int = Field(default=120_000, ge=100, le=24 * HOUR_MS)
    lock_expiry_ms: int = Field(default=60_000, ge=100, le=24 * HOUR_MS)
    groups_max: int = Field(default=10_000, ge=1)
    """The most groups."""
    members_max: int = Field(default=20_000, ge=1)
    """The most members of all groups."""
    member_characters_max: int = Field(default=32 * MIB, ge=1)
    """The most characters in the subscriptions of all members."""
    offsets_max: int = Field(default=200_000, ge=1)
    """The most committed offsets."""
    locks_max: int = Field(default=200_000, ge=1)
    """The most locks of queues."""


class Requests(Section):
    """Requests that wait for a reply."""

    waiting_max: int = Field(default=10_000, ge=1)
    """The most waiting requests."""


class Receive(Section):
    """Messages delivered to be acknowledged. A group's place in a topic that nobody has received from for `idle_ms`
    may be replaced by a new one."""

    out_max: int = Field(default=100_000, ge=1, le=10_000_000)
    """The most unacknowledged messages of all groups."""
    group_out_max: int = Field(default=50_000, ge=1, le=10_000_000)
    """The most unacknowledged messages of one group."""
    subscriptions_max: int = Field(default=10_000, ge=1)
    """The most places of groups in topics."""
    idle_ms: int = Field(default=24 * HOUR_MS, ge=0)
    messages_per_call_max: int = Field(default=1_000, ge=1, le=10_000)
    """The most messages that a receive may ask for."""
    receipts_per_call_max: int = Field(default=10_000, ge=1, le=100_000)
    """The most receipts in an acknowledgement."""
    invisible_ms_max: int = Field(default=12 * HOUR_MS, ge=1, le=7 * 24 * HOUR_MS)
    """The longest time that a message can be invisible."""


class Sinks(Section):
    """Batches of messages that are committed as one (docs/lake.md, "The sink"). Parts that wait for their commit,
    and sinks of one batch, are forgotten after `keep_ms`."""

    sinks_max: int = Field(default=1_000, ge=1)
    """The most sinks."""
    staged_bytes_max: int = Field(default=8 * GIB, ge=MIB)
    """The most bytes of parts without a commit."""
    staged_parts_max: int = Field(default=100_000, ge=1)
    """The most parts without a commit."""
    keep_ms: int = Field(default=24 * HOUR_MS, ge=1_000)
