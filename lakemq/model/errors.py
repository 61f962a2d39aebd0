"""The tree of errors. A code is stable: clients may branch on it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType


class LakemqError(Exception):
    """An error that a user can understand and act on.

    `code` is stable across versions, `detail` is for people. `web/problems.py` maps codes to
    HTTP, `lakemq.cli` prints the detail in one line.
    """

    code = "internal"
    status: int | None = None
    """The HTTP status of the answer that it came with; None where there was none."""
    request_id: str | None = None
    """That answer's request id, by which the broker's log names the request."""
    retryable = False
    """Whether the same call may succeed later, with nothing changed by whoever makes it."""
    lasting = False
    """Whether trying again can't help: somebody has to change something first."""
    members: Mapping[str, str | int] = MappingProxyType({})
    """What its problem document says beside that."""
    retry_after_s = 0
    """After how long the same may pass; 0: that isn't known."""
    closes = False
    """Whether its answer is the last one on the connection."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail


class InvalidRequest(LakemqError):
    """The request can't be understood: a field is missing, of the wrong type or out of range.
    What to do: correct the call: the detail names the field."""

    code = "invalid_request"


class InvalidTopic(LakemqError):
    """The topic's name is not of the form `[A-Za-z0-9_-]{1,127}`.
    What to do: correct the name."""

    code = "invalid_topic"


class InvalidArrow(LakemqError):
    """The body is not a valid Arrow IPC stream with the message columns.
    What to do: correct the table's columns."""

    code = "invalid_arrow"


class InvalidFilter(LakemqError):
    """A tag or SQL92 expression can't be parsed.
    What to do: correct the expression: the detail says where."""

    code = "invalid_filter"


class InvalidSql(LakemqError):
    """The statement is malformed, or not allowed. `line` and `column`, from 1: the place, if it is known.
    What to do: correct the statement."""

    code = "invalid_sql"

    def __init__(self, detail: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(detail)
        self.line, self.column = line, column
        if line is not None and column is not None:
            self.members = {"line": line, "column": column}

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.detail}" if self.members else self.detail


class ReadOnlyTopic(LakemqError):
    """Clients may not write to this topic: it is a system topic, or its permission forbids it.
    What to do: send to another topic, or have an administrator change its permission."""

    code = "read_only_topic"


class Unauthenticated(LakemqError):
    """The request has no valid token. `token_file`: where the administrator of this machine finds one, if the
    request came from this machine.
    What to do: give a valid token (`token=` or LAKEMQ_TOKEN)."""

    code = "unauthenticated"
    lasting = True

    def __init__(self, detail: str, token_file: str = "") -> None:
        super().__init__(detail)
        self.members = {"token_file": token_file} if token_file else {}


class Forbidden(LakemqError):
    """The user may not do this, or no client may.
    What to do: ask an administrator for the right that the detail names."""

    code = "forbidden"
    lasting = True


class UserNotFound(LakemqError):
    """There is no user with that name.
    What to do: check the name, or create the user."""

    code = "user_not_found"


class TokenNotFound(LakemqError):
    """The user has no token with that id.
    What to do: check the id; the token may have been deleted."""

    code = "token_not_found"


class TopicNotFound(LakemqError):
    """There is no topic with that name.
    What to do: create the topic, or check its name."""

    code = "topic_not_found"


class QueueNotFound(LakemqError):
    """The topic has no queue with that id.
    What to do: look up the topic's queues again."""

    code = "queue_not_found"


class MessageNotFound(LakemqError):
    """There is no message with that id that you can read.
    What to do: check the id; the message may have been deleted, or be past its retention."""

    code = "message_not_found"


class TransactionNotFound(LakemqError):
    """The broker knows no transaction with that id.
    What to do: check the id; the transaction may have ended long ago."""

    code = "transaction_not_found"


class TransactionResolved(LakemqError):
    """The transaction has already been resolved the other way.
    What to do: undo the local work, or find out who resolved it."""

    code = "transaction_resolved"


class AlreadyDelivered(LakemqError):
    """The scheduled message has already been delivered, so it can't be recalled.
    What to do: send a message that corrects it."""

    code = "already_delivered"


class RedriveNotFound(LakemqError):
    """The broker knows no redrive with that id.
    What to do: check the id, or start another redrive."""

    code = "redrive_not_found"


class SinkNotFound(LakemqError):
    """No batch was ever committed to a sink with that name, or the broker has forgotten the sink."""

    code = "sink_not_found"


class PartNotFound(LakemqError):
    """A part of the commit is not staged: it never was, or the broker has dropped it."""

    code = "part_not_found"


class GroupNotFound(LakemqError):
    """The broker knows no consumer group with that name.
    What to do: check the name; a group exists once it has members, offsets or retries."""

    code = "group_not_found"


class ClientNotFound(LakemqError):
    """The group has no member with that id.
    What to do: list the connected clients; this one may have stopped."""

    code = "client_not_found"


class GroupInUse(LakemqError):
    """The group has members, so it can't be deleted.
    What to do: stop the group's consumers first."""

    code = "group_in_use"


class GroupModelDiffers(LakemqError):
    """The group's other members use another model (clustering or broadcasting).
    What to do: give all members of the group the same `model`."""

    code = "group_model_differs"


class ConsumeDisabled(LakemqError):
    """An operator has paused the group; its messages wait.
    What to do: wait until an operator resumes the group, as consumers do by themselves."""

    code = "consume_disabled"
    retryable = True
    retry_after_s = 5


class OffsetBeyondEnd(LakemqError):
    """The offset is beyond the queue's end, so it can't be committed.
    What to do: commit the offset of an existing message."""

    code = "offset_beyond_end"


class LogReplaced(LakemqError):
    """The broker's log is not the one that was read, written to the lake or decided on before, or it has lost
    a part of it."""

    code = "log_replaced"


class ReceiptExpired(LakemqError):
    """The receipt has expired, or another has replaced it: the message is no longer yours.
    What to do: drop the result: the message is delivered again. Ask for more time with `invisible_s`."""

    code = "receipt_expired"


class RequestNotFound(LakemqError):
    """Nobody is waiting for a reply to that request: it never existed, was answered, or has timed out.
    What to do: drop the reply."""

    code = "request_not_found"


class RequestTimeout(LakemqError):
    """No reply arrived in time.
    What to do: send the request again if that does no harm, or allow more time."""

    code = "request_timeout"
    retryable = True


class FlowControl(LakemqError):
    """The broker has reached a limit; the request has to wait.
    What to do: wait `retry_after_s`, or until less is waiting, and try again."""

    code = "flow_control"
    retryable = True


class OverQuota(FlowControl):
    """The user has exceeded a quota. `quota`: which one; `closes`: the user has too many connections, and this one
    is closed."""

    def __init__(self, detail: str, quota: str = "", retry_after_s: int = 1, closes: bool = False) -> None:
        super().__init__(detail)
        self.quota = quota
        self.members = {"quota": quota} if quota else {}
        self.retry_after_s = retry_after_s
        self.closes = closes


class MessageTooLarge(LakemqError):
    """A message or a request is larger than the limit.
    What to do: send less: split it, or store the body elsewhere and send where it is."""

    code = "message_too_large"


class WrongMessageType(LakemqError):
    """The topic accepts messages of another type only: the one that its `message_type` names.
    What to do: send what the topic accepts, or change its `message_type`."""

    code = "wrong_message_type"


class SchemaNotFound(LakemqError):
    """The topic has no schema, or none of that version.
    What to do: set one, or ask for a version that is listed."""

    code = "schema_not_found"


class IncompatibleSchema(LakemqError):
    """Bodies that fit a version of the topic's schema would not fit the new one.
    What to do: correct the schema: the detail names the fields; or drop the topic's schema first."""

    code = "incompatible_schema"


class SchemaChanged(LakemqError):
    """The topic's schema isn't of the version that the request expects.
    What to do: look at the schema again, then decide."""

    code = "schema_changed"


class UnsupportedMediaType(LakemqError):
    """The gateway does not support this content encoding or media type.
    What to do: send another media type or content encoding."""

    code = "unsupported_media_type"


class IdempotencyMismatch(LakemqError):
    """The idempotency key was used before with another payload.
    What to do: use a new key for a new payload."""

    code = "idempotency_mismatch"


class StoreUnwritable(LakemqError):
    """The log accepts no writes: the disk is full, or a flush has failed.
    What to do: try again later; an operator has to check the broker's disk."""

    code = "store_unwritable"
    retryable = True


class NotEnoughReplicas(StoreUnwritable):
    """Fewer replicas are in sync than `replication.min_in_sync` requires. New messages are not written; one that was
    already waiting for confirmation may be stored.
    What to do: try again later with the same idempotency key; a replica has to return first."""

    code = "not_enough_replicas"
    retryable = True


class NotConfirmed(StoreUnwritable):
    """A message, or another change, was written, but not confirmed in time, so it may be stored.
    What to do: ask again; send messages with the same idempotency key."""

    code = "not_confirmed"
    retryable = True


class NotLeader(LakemqError):
    """A follower accepts no writes. `leader`: the leader's address, if it is known.
    What to do: nothing; clients go to the leader by themselves."""

    code = "not_leader"
    retryable = True

    def __init__(self, detail: str, leader: str = "") -> None:
        super().__init__(detail)
        self.leader = leader
        self.members = {"leader": leader} if leader else {}


class Fenced(LakemqError):
    """The request, or the replica, still refers to a leader that has been replaced."""

    code = "fenced"


class EpochDiverged(Fenced):
    """The caller's log ends in a different epoch than this log has at that position. `epoch`, `position`: the last
    epoch that both may share, and up to where.
    What to do: cut your log at `position`, drop later epochs, and ask again."""

    code = "epoch_diverged"

    def __init__(self, detail: str, epoch: int | None = None, position: int | None = None) -> None:
        super().__init__(detail)
        if epoch is not None and position is not None:
            self.members = {"epoch": epoch, "position": position}


class NotInSync(LakemqError):
    """The replica can't lead: it is not in sync, or silent."""

    code = "not_in_sync"


class LeaderLives(LakemqError):
    """A forced election is refused while a leader exists, or a replica in sync can lead."""

    code = "leader_lives"


class Busy(LakemqError):
    """The gateway has reached a limit; the same request may succeed a little later.
    What to do: try again a little later."""

    code = "busy"
    retryable = True


class SettingsError(LakemqError):
    """A setting is unknown or impossible. The detail names it and where it was set.
    What to do: correct the setting that the detail names."""

    code = "invalid_settings"
    lasting = True


class LogDamaged(LakemqError):
    """The log is damaged: bytes that were written can no longer be read.
    What to do: tell the operator; `lakemq doctor` shows what is damaged."""

    code = "log_damaged"
    lasting = True


class LogVersion(LakemqError):
    """The log was written in a version of its format that this lakemq can't read."""

    code = "log_version"
    lasting = True


class LakeUnreadable(LakemqError):
    """Messages that have left the log can't be read from the lake.
    What to do: tell the operator; messages that are still in the log can be read."""

    code = "lake_unreadable"


class LakeDamaged(LakemqError):
    """A table of the lake lacks messages that no log holds any longer; continuing would silently lose them."""

    code = "lake_damaged"


class LogInUse(LakemqError):
    """Another process holds the data directory."""

    code = "log_in_use"


class PositionGone(LakemqError):
    """The log no longer holds that position, because retention removed it; or it has not reached it yet.
    What to do: continue at the first offset that exists."""

    code = "position_gone"


class NotInObjectStorage(LakemqError):
    """This only works with a lake on a disk, and the lake is in object storage. Nothing was changed."""

    code = "not_in_object_storage"
    lasting = True


class StoreUnsafe(LakemqError):
    """The object store lacks a guarantee that a lake needs: creating an object only once (If-None-Match)."""

    code = "store_unsafe"
    lasting = True
