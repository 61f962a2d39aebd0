"""`Admin` for programs without asyncio."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from lakemq.client.aio.admin import Admin as AsyncAdmin
from lakemq.client.aio.admin import AdminOptions
from lakemq.client.dead_letter import DeadLetter, DeadLetterState
from lakemq.client.durations import Seconds
from lakemq.client.errors import LakemqError
from lakemq.client.frame import Frame
from lakemq.client.loop import background
from lakemq.client.manage.groups import ResetTo
from lakemq.client.manage.redrives import LOOK_EVERY
from lakemq.client.manage.results import (
    ClientInfo,
    DeadLetterCauses,
    Discarded,
    GroupInfo,
    GroupSummary,
    OffsetChange,
    OpenTransaction,
    QueueLag,
    Redrive,
    RedriveProgress,
    RedriveResult,
    ScheduledMessage,
    SchemaInfo,
    TopicInfo,
)
from lakemq.client.manage.spans import Place
from lakemq.client.manage.users import AccessAnswer, PolicyInfo, UserInfo, UserStatus, UserType
from lakemq.client.produce.transactions import Resolution
from lakemq.client.user_api import NewToken
from lakemq.client.view import MessageView

if TYPE_CHECKING:  # loaded where a schema is inferred
    from lakemq.model.infer_schema import Inferred


class Admin:
    """Manages topics, groups, messages, dead letters and users, at all brokers together.

    Options: `AdminOptions`. Use it as a context manager, or `close` it. Threads may share it. Every method raises
    `Unreachable`, `Unauthenticated` and `Forbidden`. If an answer was lost (`Unreachable.sent`), check whether the
    request was carried out. If several brokers are asked, some may have carried it out.
    """

    def __init__(self, **options: Unpack[AdminOptions]) -> None:
        self._loop = background()
        self._admin = AsyncAdmin(**options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def topics(self, *, system: bool = False, broker: str | None = None) -> list[TopicInfo]:
        """All topics, sorted by name; with `system` also system topics, as far as you may read them."""
        return self._loop.run(self._admin.topics(system=system, broker=broker))

    def topic(self, topic: str, *, times: bool = False, broker: str | None = None) -> TopicInfo:
        """One topic with the offsets of its queues. Raises `TopicNotFound`.

        `times`: also when the oldest and the newest message of each queue were stored, of at most 4,096 queues of each
        broker. This takes a request per 64 queues, and may read the lake.
        """
        return self._loop.run(self._admin.topic(topic, times=times, broker=broker))

    def create_topic(
        self,
        topic: str,
        *,
        queues: int | None = None,
        permission: str | None = None,
        message_type: str | None = None,
        ttl: timedelta | None = None,
        message_bytes_max: int | None = None,
        broker: str | None = None,
    ) -> TopicInfo:
        """Create a topic at all brokers, or change an existing one. Settings that aren't given get the broker's
        default, or stay the same. Returns the topic as it is then.

        `queues`: at each broker; the number can only grow. `permission`: what clients may do, `r`, `w` or `rw`.
        `message_type`: `any`, `normal`, `fifo`, `delay`, `transaction` or `priority`. `ttl`: how long its messages are
        delivered; 0: forever. `message_bytes_max`: the largest body; 0: the broker's limit. Raises `InvalidTopic`,
        `InvalidRequest`.
        """
        return self._loop.run(
            self._admin.create_topic(
                topic,
                queues=queues,
                permission=permission,
                message_type=message_type,
                ttl=ttl,
                message_bytes_max=message_bytes_max,
                broker=broker,
            )
        )

    def configure_topic(
        self,
        topic: str,
        *,
        queues: int | None = None,
        permission: str | None = None,
        message_type: str | None = None,
        ttl: timedelta | None = None,
        message_bytes_max: int | None = None,
        broker: str | None = None,
    ) -> TopicInfo:
        """Change the given settings of a topic, at every broker that has it. The arguments are those of `create_topic`.
        Raises `TopicNotFound`, `InvalidRequest`."""
        return self._loop.run(
            self._admin.configure_topic(
                topic,
                queues=queues,
                permission=permission,
                message_type=message_type,
                ttl=ttl,
                message_bytes_max=message_bytes_max,
                broker=broker,
            )
        )

    def delete_topic(self, topic: str, *, broker: str | None = None) -> None:
        """Delete a topic: its messages can no longer be received. Raises `TopicNotFound`."""
        self._loop.run(self._admin.delete_topic(topic, broker=broker))

    def schema(self, topic: str, *, version: int | None = None, broker: str | None = None) -> SchemaInfo:
        """A topic's schema: the current version, or the given one. Raises `TopicNotFound`, `SchemaNotFound`."""
        return self._loop.run(self._admin.schema(topic, version=version, broker=broker))

    def set_schema(
        self,
        topic: str,
        schema: Mapping[str, Any] | str,
        *,
        type: str = "json",
        if_version: int | None = None,
        table: bool | None = None,
        broker: str | None = None,
    ) -> SchemaInfo:
        """Set a topic's schema, or a new version of it, at each broker that has the topic. If it is the same as the
        current one, nothing changes.

        `schema`: as JSON or its text. `type`: `json` (JSON Schema), `avro`, or `protobuf`: an object of `message`, its
        full name, and `descriptor_set`, a FileDescriptorSet in base64. `if_version`: only if this is the current
        version; 0: only if there is none. `table`: whether the jobs keep a Delta table of the topic; None: as before.
        Raises `TopicNotFound`, `InvalidRequest`, `IncompatibleSchema`, `SchemaChanged`.
        """
        said: dict[str, Any] = {"type": type, "if_version": if_version, "table": table, "broker": broker}
        return self._loop.run(self._admin.set_schema(topic, schema, **said))

    def drop_schema(self, topic: str, *, if_version: int | None = None, broker: str | None = None) -> None:
        """Drop a topic's schema, with all its versions: SQL no longer has a table for the topic. Raises
        `TopicNotFound`, `SchemaNotFound`, `SchemaChanged`."""
        self._loop.run(self._admin.drop_schema(topic, if_version=if_version, broker=broker))

    def infer_schema(self, topic: str, *, messages_max: int = 1_000) -> Inferred:
        """A JSON Schema that matches the topic's newest messages, the same number from each queue. Nothing is changed.
        Raises `TopicNotFound`, and `InvalidRequest` if none of them is a JSON object."""
        return self._loop.run(self._admin.infer_schema(topic, messages_max=messages_max))

    def groups(self, *, broker: str | None = None) -> list[GroupSummary]:
        """A summary of all groups, sorted by name."""
        return self._loop.run(self._admin.groups(broker=broker))

    def group(self, group: str, *, broker: str | None = None) -> GroupInfo:
        """One group: its members, their subscriptions, and its lag. Raises `GroupNotFound`."""
        return self._loop.run(self._admin.group(group, broker=broker))

    def lag(self, group: str, topic: str | None = None, *, broker: str | None = None) -> list[QueueLag]:
        """A group's lag, queue by queue, in all its topics or in one. Raises `GroupNotFound`."""
        return self._loop.run(self._admin.lag(group, topic, broker=broker))

    def reset_offsets(
        self, group: str, topic: str, to: ResetTo, *, dry_run: bool = False, broker: str | None = None
    ) -> list[OffsetChange]:
        """Move a group's offsets in a topic, back or ahead; its members follow. Returns the changes, by queue.

        `dry_run`: only returns what would change now. Raises `TopicNotFound`, `InvalidRequest`.
        """
        return self._loop.run(self._admin.reset_offsets(group, topic, to, dry_run=dry_run, broker=broker))

    def pause_group(self, group: str, *, broker: str | None = None) -> None:
        """Pause a group until `resume_group`: its members get no messages, also after a restart. They may finish and
        commit the messages that they already have. If the group doesn't exist, it is created."""
        self._loop.run(self._admin.pause_group(group, broker=broker))

    def resume_group(self, group: str, *, broker: str | None = None) -> None:
        """Resume a paused group."""
        self._loop.run(self._admin.resume_group(group, broker=broker))

    def pause_client(self, group: str, client_id: str, *, broker: str | None = None) -> None:
        """Pause one member of a group until `resume_client`. It keeps its queues, and they wait. Raises
        `GroupNotFound`, `ClientNotFound`."""
        self._loop.run(self._admin.pause_client(group, client_id, broker=broker))

    def resume_client(self, group: str, client_id: str, *, broker: str | None = None) -> None:
        """Resume a paused member of a group."""
        self._loop.run(self._admin.resume_client(group, client_id, broker=broker))

    def delete_group(self, group: str, *, broker: str | None = None) -> None:
        """Delete a group with its offsets, its retries and its dead letters. Raises `GroupNotFound`, and `GroupInUse`
        while it has members."""
        self._loop.run(self._admin.delete_group(group, broker=broker))

    def clients(
        self, group: str | None = None, *, producer_group: str | None = None, broker: str | None = None
    ) -> list[ClientInfo]:
        """The connected clients: all, or those of one consumer or producer group; each once for each broker. Raises
        `GroupNotFound` for a consumer group."""
        return self._loop.run(self._admin.clients(group, producer_group=producer_group, broker=broker))

    def message(self, message_id: str) -> MessageView:
        """One message by its id, from the log or the lake. Raises `MessageNotFound`."""
        return self._loop.run(self._admin.message(message_id))

    def messages(
        self,
        topic: str,
        *,
        begin: Place | None = None,
        end: Place | None = None,
        tags: str = "*",
        sql: str | None = None,
    ) -> Iterator[MessageView]:
        """The messages that a topic has now, oldest first, a page at a time. No group is involved, and nothing is
        committed.

        `begin`, `end`: the range, by store time or by offset, `begin ≤ o < end`. `tags`, `sql`: filters, as for
        consumers. Raises `TopicNotFound`, `InvalidFilter`.
        """
        return self._loop.iterate(self._admin.messages(topic, begin=begin, end=end, tags=tags, sql=sql))

    def messages_by_key(
        self, topic: str, key: str, *, begin: datetime | None = None, end: datetime | None = None
    ) -> Iterator[MessageView]:
        """A topic's messages with the key, newest first, a page at a time, from logs and lake: those that were stored
        at `begin` or later, and before `end`.

        Raises `TopicNotFound`; and `SearchEnded` after the last one, if a broker doesn't search further back.
        """
        return self._loop.iterate(self._admin.messages_by_key(topic, key, begin=begin, end=end))

    def recall(self, message_id: str) -> None:
        """Recall a scheduled message: it is never delivered. Doing so twice does no harm. Raises `AlreadyDelivered`,
        `MessageNotFound`, and `InvalidRequest` for a message that isn't scheduled."""
        self._loop.run(self._admin.recall(message_id))

    def scheduled(self, *, topic: str | None = None, broker: str | None = None) -> Iterator[ScheduledMessage]:
        """Waiting scheduled messages, including retries, soonest first, a page at a time: for all topics, or for this
        one, as far as you may see them. Pass the id to `recall`."""
        return self._loop.iterate(self._admin.scheduled(topic=topic, broker=broker))

    def open_transactions(
        self, *, producer_group: str | None = None, topic: str | None = None, broker: str | None = None
    ) -> Iterator[OpenTransaction]:
        """Transactions that are neither committed nor rolled back, oldest first within each broker, a page at a time:
        of all producer groups and topics, or of the given ones, as far as you may see them."""
        return self._loop.iterate(
            self._admin.open_transactions(producer_group=producer_group, topic=topic, broker=broker)
        )

    def end_transaction(self, transaction: OpenTransaction, resolution: Resolution) -> None:
        """Commit or roll back an open transaction on behalf of its producer. This needs `Pub` on its producer group and
        topic. You may repeat it with the same resolution. Raises `TransactionResolved` if it already has the opposite
        outcome, `TransactionNotFound` if the broker no longer has its half message, `InvalidRequest` for `UNKNOWN`."""
        self._loop.run(self._admin.end_transaction(transaction, resolution))

    def resolve_transactions(
        self, producer_group: str, resolutions: Mapping[str, Resolution]
    ) -> dict[str, LakemqError | None]:
        """End transactions, by their ids, on behalf of their producers. Returns the error of each, or None:
        `TransactionResolved` if it already has the opposite outcome, `TransactionNotFound`."""
        return self._loop.run(self._admin.resolve_transactions(producer_group, resolutions))

    def dead_letters(
        self,
        group: str,
        *,
        state: DeadLetterState | None = None,
        reason: str | None = None,
        cause: str | None = None,
        topic: str | None = None,
        begin: datetime | None = None,
        end: datetime | None = None,
        broker: str | None = None,
    ) -> Iterator[DeadLetter]:
        """A group's dead letters, broker by broker, newest first within each, a page at a time.

        `state`: `open`, `redriven`, `discarded` or `gone`. `reason`: a part of the failure's class or text. `cause`:
        exactly this one, as `dead_letter_causes` names it. `topic`: the topic that they were first sent to. `begin`,
        `end`: when they became dead letters. Use `message` to get their bodies. Raises `GroupNotFound`.
        """
        return self._loop.iterate(
            self._admin.dead_letters(
                group, state=state, reason=reason, cause=cause, topic=topic, begin=begin, end=end, broker=broker
            )
        )

    def dead_letter_causes(
        self,
        group: str,
        *,
        state: DeadLetterState | None = "open",
        topic: str | None = None,
        begin: datetime | None = None,
        end: datetime | None = None,
        letters_max: int = 100_000,
        broker: str | None = None,
    ) -> DeadLetterCauses:
        """What a group's dead letters died of, at all brokers together, those with most letters first. This reads the
        letters: at each broker the newest `letters_max`.

        `state`: None: in any. `topic`, `begin`, `end`: as for `dead_letters`. Raises `GroupNotFound`.
        """
        return self._loop.run(
            self._admin.dead_letter_causes(
                group, state=state, topic=topic, begin=begin, end=end, letters_max=letters_max, broker=broker
            )
        )

    def redrive(
        self,
        group: str,
        where: str | None = None,
        *,
        rate_per_s: float = 100,
        dry_run: bool = False,
        broker: str | None = None,
    ) -> Redrive:
        """Send a group's dead letters to it again: all, or those that match an SQL predicate over their columns.
        Returns as soon as they are found. The brokers then continue by themselves, even after a restart.

        `rate_per_s`: the most per second, at each broker. `dry_run`: only finds them. Raises `GroupNotFound`,
        `InvalidFilter`, `InvalidRequest` for too many at a time.
        """
        return self._loop.run(self._admin.redrive(group, where, rate_per_s=rate_per_s, dry_run=dry_run, broker=broker))

    def discard(
        self, group: str, where: str | None = None, *, dry_run: bool = False, broker: str | None = None
    ) -> Discarded:
        """Give up a group's open dead letters for good: all, or those that match an SQL predicate over their columns.
        They stay readable, and no redrive sends them. Returns when all are discarded. After an error, the same call
        again discards the rest.

        `dry_run`: only counts them. Raises `InvalidFilter`, `InvalidRequest` for too many at a time, `Busy`.
        """
        return self._loop.run(self._admin.discard(group, where, dry_run=dry_run, broker=broker))

    def redrive_progress(self, redrive: Redrive | str) -> RedriveProgress:
        """The progress of a redrive, which you can also name by one of its ids. Raises `RedriveNotFound`."""
        return self._loop.run(self._admin.redrive_progress(redrive))

    def watch_redrive(self, redrive: Redrive | str, every: timedelta = LOOK_EVERY) -> Iterator[RedriveProgress]:
        """The progress of a redrive, repeatedly, until it has ended. Raises `RedriveNotFound`."""
        return self._loop.iterate(self._admin.watch_redrive(redrive, every))

    def redrive_results(self, redrive: Redrive | str) -> Iterator[RedriveResult]:
        """The outcome of each dead letter, a page at a time. Raises `RedriveNotFound`."""
        return self._loop.iterate(self._admin.redrive_results(redrive))

    def users(self, *, broker: str | None = None) -> list[UserInfo]:
        """All users, sorted by name. All methods for users need a super user's token."""
        return self._loop.run(self._admin.users(broker=broker))

    def user(self, user: str, *, broker: str | None = None) -> UserInfo:
        """One user with its policies and tokens. Raises `UserNotFound`."""
        return self._loop.run(self._admin.user(user, broker=broker))

    def put_user(
        self,
        user: str,
        *,
        type: UserType | None = None,
        status: UserStatus | None = None,
        quotas: Mapping[str, float | None] | None = None,
        broker: str | None = None,
    ) -> UserInfo:
        """Create a user, or change the given settings. A new user is `normal` and `enabled`, and may do nothing yet.

        `quotas`: `requests_per_s`, `bytes_per_s`, `connections`, `topics`, `queues`; 0: no limit, None: the broker's
        setting. Raises `InvalidRequest`.
        """
        return self._loop.run(self._admin.put_user(user, type=type, status=status, quotas=quotas, broker=broker))

    def delete_user(self, user: str, *, broker: str | None = None) -> None:
        """Delete a user with its policies and tokens. Raises `UserNotFound`."""
        self._loop.run(self._admin.delete_user(user, broker=broker))

    def create_token(
        self, user: str, *, expires: timedelta | datetime | None = None, broker: str | None = None
    ) -> NewToken:
        """Create a token for a user: all brokers accept it, or none. Only this answer has its text. `expires`: the
        lifetime, or the time when it expires. Raises `UserNotFound`, `InvalidRequest`."""
        return self._loop.run(self._admin.create_token(user, expires=expires, broker=broker))

    def delete_token(self, user: str, token_id: str, *, broker: str | None = None) -> None:
        """Revoke a token. Raises `UserNotFound`, `TokenNotFound`."""
        self._loop.run(self._admin.delete_token(user, token_id, broker=broker))

    def set_policies(self, user: str, policies: Sequence[PolicyInfo], *, broker: str | None = None) -> UserInfo:
        """Replace all policies of a user. Returns the user as it is then. Raises `UserNotFound`, `InvalidRequest`."""
        return self._loop.run(self._admin.set_policies(user, policies, broker=broker))

    def may(
        self, user: str, action: str, resource: str, *, source: str | None = None, broker: str | None = None
    ) -> dict[str, AccessAnswer]:
        """Whether a user may do something, from an address, by the name of each broker. Raises `UserNotFound`,
        `InvalidRequest`."""
        return self._loop.run(self._admin.may(user, action, resource, source=source, broker=broker))

    def sql(self, statement: str, *, rows_max: int | None = None, timeout_s: Seconds | None = None) -> Frame:
        """The rows of one statement that only reads, as far as you may see them, from the jobs that the brokers know.
        Default limits come from the settings of these jobs. Raises `InvalidSql`, and `Unreachable` if no jobs answer.
        """
        return self._loop.run(self._admin.sql(statement, rows_max=rows_max, timeout_s=timeout_s))

    def close(self) -> None:
        """Close the connections."""
        self._loop.run(self._admin.close())
