"""What an `Admin` answers. Of several brokers the answers are put together: each queue says which broker has it."""

from __future__ import annotations

from typing import NamedTuple

from lakemq.client.produce.transactions import Resolution
from lakemq.model.message_queue import MessageQueue


class QueueInfo(NamedTuple):
    """A queue with its offsets: the first, that of the next message, and the first that is still in the log (earlier
    ones are in the lake). `oldest_ms`, `newest_ms`: when its oldest and its newest message were stored, of `topic` with
    `times`; None: it has none, or it isn't known."""

    queue: MessageQueue
    begin: int
    end: int
    log_begin: int
    oldest_ms: int | None = None
    newest_ms: int | None = None


class TopicInfo(NamedTuple):
    """A topic. `permission` and the configuration are those of the first of `brokers`; `differs`: another broker has
    different ones. `ttl_ms` 0: its messages don't expire. `message_bytes_max` 0: the broker's limit. `expired`: how
    many messages have expired since the brokers started."""

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
        """The number of offsets between the queues' begins and ends, which is about the number of messages."""
        return sum(each.end - each.begin for each in self.queues)


class ColumnInfo(NamedTuple):
    """A column of a topic's table, with its type in Spark SQL."""

    name: str
    type: str


class SchemaInfo(NamedTuple):
    """A version of a topic's schema, as the first of `brokers` has it; `differs`: another broker has a different one.
    `type`: `json`, `avro` or `protobuf`. `schema`: its text. `ignored`: its keywords that no column represents.
    `versions`: all existing versions. `table`: whether at least one broker says that the jobs keep a Delta table of the
    topic."""

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
    """A member's subscription to a topic. `type`: `tag` or `sql92`."""

    topic: str
    type: str
    expression: str


class MemberInfo(NamedTuple):
    """A member of a group, at one broker. `heartbeat_age_ms`: the time since its last heartbeat."""

    client_id: str
    broker: str
    model: str
    consume_from: str
    heartbeat_age_ms: int
    subscriptions: tuple[SubscriptionInfo, ...]


class QueueLag(NamedTuple):
    """A group's lag in a queue. `offset` None: it has none yet. `lag` None: unknown, because members of a broadcasting
    group keep their offsets themselves."""

    queue: MessageQueue
    offset: int | None
    begin: int
    end: int
    lag: int | None


class GroupSummary(NamedTuple):
    """A summary of a group. `model` None: it never had members. `members`: the most that one broker knows. `lag` None:
    one broker doesn't know it. `partial`: it has topics that you may not see."""

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
    """A group. `model` None: it never had members. `members`: each once for each broker. `lag`: by queue, including the
    group's retries. `lag_total` None: one broker doesn't know it. `paused`: at one broker at least.
    `subscriptions_differ`: its members have different subscriptions to a topic, so the group misses messages.
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
    """A group's offset in a queue, before and after a reset. `before` None: it had no offset."""

    queue: MessageQueue
    before: int | None
    after: int


class ClientInfo(NamedTuple):
    """A client that is connected to a broker: `kind` is `consumer`, `producer`, or `receiver`, which has no id. Fields
    that it hasn't reported are None; `user` and `address` are also None if you may not see them. `paused`: by its
    program; `paused_by_operator`: by `pause_client` or `pause_group`. `stuck`: how many calls of its listener take too
    long. `buffered`: how many messages it holds."""

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
    """A redrive: one at each broker that has dead letters of the group. `matched`: the number of its dead letters.
    `gone`: how many more are neither in the log nor in the lake any longer."""

    ids: tuple[str, ...]
    matched: int
    gone: int


class RedriveProgress(NamedTuple):
    """The progress of a redrive. `matched` minus the other two is the number still waiting, unless it was a dry run."""

    matched: int
    redriven: int
    failed: int
    running: bool


class RedriveResult(NamedTuple):
    """The outcome of a dead letter: `pending`, `redriven`, `failed`, or `matched` by a dry run."""

    message_id: str
    status: str
    redriven_message_id: str | None


class DeadLetterCause(NamedTuple):
    """What `letters` dead letters died of. `cause`: the failure's class, or without one the beginning of its text;
    empty: nobody gave a reason. `oldest_ms`, `newest_ms`: when the first and the last of them became dead letters."""

    cause: str
    letters: int
    oldest_ms: int
    newest_ms: int


class DeadLetterCauses(NamedTuple):
    """Causes, those with most letters first. `truncated`: there are older letters, which were not counted."""

    causes: tuple[DeadLetterCause, ...]
    truncated: bool


class Discarded(NamedTuple):
    """The dead letters that a discard `matched`, and how many it `discarded`: those that a redrive was sending at that
    moment are left out. `gone`: how many more are neither in the log nor in the lake any longer."""

    matched: int
    discarded: int
    gone: int


class ScheduledMessage(NamedTuple):
    """A message that waits until `due_ms`. `retry_topic`: the topic of which it is a retry; then `topic` is the group's
    retry topic, and the message can't be recalled. `keys`: at most the first 20."""

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
    """A half message whose transaction is open. `half_id` identifies the message; the transaction's own id is secret,
    and only its producer has it. `checks`: how many checks were made, out of `checks_max`. `next_check_ms` None: there
    is none, because its `resolution` is being carried out. `keys`: at most the first 20."""

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
