"""What an `Admin` answers. Of several brokers the answers are put together: each queue says which broker has it."""

from __future__ import annotations

from typing import NamedTuple

from lakemq.client.produce.transactions import Resolution
from lakemq.model.message_queue import MessageQueue


class QueueInfo(NamedTuple):
    """A queue with its offsets: the first, the one that the next message gets, and the first that is in the log still
    (what comes before is in the lake)."""

    queue: MessageQueue
    begin: int
    end: int
    log_begin: int


class TopicInfo(NamedTuple):
    """A topic. `permission` and the configuration are those at the first of `brokers`; `differs`: another one has it
    otherwise. `ttl_ms` 0: its messages don't expire. `message_bytes_max` 0: as many as the broker takes. `expired`: so
    many messages since the brokers began."""

    topic: str
    brokers: tuple[str, ...]
    permission: str
    message_type: str
    ttl_ms: int
    message_bytes_max: int
    expired: int
    differs: bool
    queues: tuple[QueueInfo, ...]

    @property
    def messages(self) -> int:
        """So many offsets there are between the queues' begins and ends: about as many messages."""
        return sum(each.end - each.begin for each in self.queues)


class ColumnInfo(NamedTuple):
    """A column of a topic's table, with its type as Spark's SQL writes it."""

    name: str
    type: str


class SchemaInfo(NamedTuple):
    """A version of a topic's schema, as it is at the first of `brokers`; `differs`: another one has another. `type`:
    `json`, `avro` or `protobuf`. `schema`: its text. `ignored`: what of it no column holds. `versions`: all there are.
    `table`: the jobs keep a Delta table of the topic, as one of them says at least."""

    topic: str
    brokers: tuple[str, ...]
    version: int
    type: str
    schema: str
    created_ms: int
    columns: tuple[ColumnInfo, ...]
    ignored: tuple[str, ...]
    versions: tuple[int, ...]
    differs: bool
    table: bool = False


class SubscriptionInfo(NamedTuple):
    """What a member wants of a topic. `type`: `tag` or `sql92`."""

    topic: str
    type: str
    expression: str


class MemberInfo(NamedTuple):
    """A member of a group, at one broker. `heartbeat_age_ms`: how long ago it was heard from."""

    client_id: str
    broker: str
    model: str
    consume_from: str
    heartbeat_age_ms: int
    subscriptions: tuple[SubscriptionInfo, ...]


class QueueLag(NamedTuple):
    """How far a group is behind in a queue. `offset` None: it has none yet. `lag` None: that isn't known, as members of
    a broadcasting group keep their offsets themselves."""

    queue: MessageQueue
    offset: int | None
    begin: int
    end: int
    lag: int | None


class GroupSummary(NamedTuple):
    """A group in short. `model` None: it never had members. `members`: the most that one broker knows. `lag` None: one
    broker doesn't know it. `partial`: it has topics that you may not see."""

    group: str
    brokers: tuple[str, ...]
    model: str | None
    members: int
    topics: tuple[str, ...]
    lag: int | None
    paused: bool
    subscriptions_differ: bool
    partial: bool


class GroupInfo(NamedTuple):
    """A group. `model` None: it never had members. `members`: each once for each broker. `lag`: by queue, also of the
    group's retries. `lag_total` None: one broker doesn't know it. `paused`: at one broker at least.
    `subscriptions_differ`: its members subscribe to a topic in different ways, so messages are lost to the group.
    `partial`: it has topics that you may not see."""

    group: str
    brokers: tuple[str, ...]
    model: str | None
    members: tuple[MemberInfo, ...]
    lag: tuple[QueueLag, ...]
    lag_total: int | None
    paused: bool
    subscriptions_differ: bool
    partial: bool


class OffsetChange(NamedTuple):
    """Where a group goes on in a queue, after and before a reset. `before` None: it had no offset."""

    queue: MessageQueue
    before: int | None
    after: int


class ClientInfo(NamedTuple):
    """A client that is connected to a broker: `kind` is `consumer`, `producer`, or `receiver`, which has no id. What it
    hasn't said is None; `user` and `address` are also None for whoever may not see them. `paused`: by its program;
    `paused_by_operator`: by `pause_client` or `pause_group`. `stuck`: so many calls of its listener take too
    long. `buffered`: so many messages it holds."""

    client_id: str | None
    broker: str
    kind: str
    group: str | None
    user: str | None
    address: str | None
    language: str | None
    version: str | None
    since_ms: int | None
    heartbeat_age_ms: int | None
    topics: tuple[str, ...]
    queues: tuple[MessageQueue, ...]
    queue_count: int | None
    paused: bool
    paused_by_operator: bool
    stuck: int
    buffered: int


class Redrive(NamedTuple):
    """A redrive: one at each broker that has dead letters of the group. `matched`: so many dead letters it is about.
    `gone`: so many more are neither in the log nor in the lake any more."""

    ids: tuple[str, ...]
    matched: int
    gone: int


class RedriveProgress(NamedTuple):
    """How far a redrive is. `matched` less the other two still wait, unless it was a dry run."""

    matched: int
    redriven: int
    failed: int
    running: bool


class RedriveResult(NamedTuple):
    """What became of a dead letter: `pending`, `redriven`, `failed`, or `matched` by a dry run."""

    message_id: str
    status: str
    redriven_message_id: str | None


class ScheduledMessage(NamedTuple):
    """A message that waits for its time, `due_ms`. `retry_topic`: of which topic it is a retry; `topic` is the group's
    retry topic then, and it can't be recalled. `keys`: the first 20 at most."""

    message_id: str
    broker: str
    topic: str
    retry_topic: str | None
    due_ms: int
    born_time_ms: int
    tag: str | None
    keys: tuple[str, ...]
    recallable: bool


class OpenTransaction(NamedTuple):
    """A half message whose transaction is open. `half_id` says which message it is; the transaction's own id is secret,
    and its producer has it. `checks` of at most `checks_max` were made. `next_check_ms` None: none comes, as its
    `resolution` was given, and is being carried out. `keys`: the first 20 at most."""

    half_id: str
    broker: str
    topic: str
    producer_group: str
    born_time_ms: int
    tag: str | None
    keys: tuple[str, ...]
    checks: int
    checks_max: int
    next_check_ms: int | None
    resolution: Resolution | None
