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
    """The body is no valid Arrow IPC stream of the message columns.
    What to do: correct the table's columns."""

    code = "invalid_arrow"


class InvalidFilter(LakemqError):
    """A tag or SQL92 expression can't be parsed.
    What to do: correct the expression: the detail says where."""

    code = "invalid_filter"


class InvalidSql(LakemqError):
    """The statement isn't understood, or isn't one of those that are served. `line` and `column`, from 1: where, if
    that is known.
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
    """Clients may not write this topic: it is the system's, or its permission says so.
    What to do: send to another topic, or have an administrator change its permission."""

    code = "read_only_topic"


class Unauthenticated(LakemqError):
    """Nobody knows who asks: there is no token, or it is none that is valid. `token_file`: where this machine's
    administrator finds one, where the answer goes to this machine.
    What to do: give a valid token (`token=` or LAKEMQ_TOKEN)."""

    code = "unauthenticated"
    lasting = True

    def __init__(self, detail: str, token_file: str = "") -> None:
        super().__init__(detail)
        self.members = {"token_file": token_file} if token_file else {}


class Forbidden(LakemqError):
    """Clients may not do this, or this one may not.
    What to do: ask an administrator for the right that the detail names."""

    code = "forbidden"
    lasting = True


class UserNotFound(LakemqError):
    """No user of that name.
    What to do: check the name, or make the user."""

    code = "user_not_found"


class TokenNotFound(LakemqError):
    """The user has no token of that id.
    What to do: check the id; the token may be deleted already."""

    code = "token_not_found"


class TopicNotFound(LakemqError):
    """No topic of that name.
    What to do: make the topic, or check its name."""

    code = "topic_not_found"


class QueueNotFound(LakemqError):
    """The topic has no queue of that id.
    What to do: ask for the topic's queues again."""

    code = "queue_not_found"


class MessageNotFound(LakemqError):
    """No message of that id is readable here.
    What to do: check the id; the message may be deleted or past its retention."""

    code = "message_not_found"


class TransactionNotFound(LakemqError):
    """No transaction of that id is known here.
    What to do: check the id; the transaction may be over for long."""

    code = "transaction_not_found"


class TransactionResolved(LakemqError):
    """The transaction was resolved the other way already.
    What to do: undo the local work, or find out who resolved it."""

    code = "transaction_resolved"


class AlreadyDelivered(LakemqError):
    """The scheduled message is in its topic already: it can't be recalled.
    What to do: send a message that corrects it."""

    code = "already_delivered"


class RedriveNotFound(LakemqError):
    """No redrive of that id is known here.
    What to do: check the id, or start another redrive."""

    code = "redrive_not_found"


class SinkNotFound(LakemqError):
    """No batch was ever committed to a sink of that name, or the sink was forgotten."""

    code = "sink_not_found"


class PartNotFound(LakemqError):
    """A part that is to be committed is not staged: it never was, or it was given up."""

    code = "part_not_found"


class GroupNotFound(LakemqError):
    """No consumer group of that name is known here.
    What to do: check the name; a group is there once it has members, offsets or retries."""

    code = "group_not_found"


class ClientNotFound(LakemqError):
    """The group has no member of that id.
    What to do: look who is connected; it may have ended."""

    code = "client_not_found"


class GroupInUse(LakemqError):
    """The group has members: it can't be deleted.
    What to do: stop the group's consumers first."""

    code = "group_in_use"


class GroupModelDiffers(LakemqError):
    """The group's members consume by another model (clustering, broadcasting) than this one would.
    What to do: give all members of the group the same `model`."""

    code = "group_model_differs"


class ConsumeDisabled(LakemqError):
    """An operator has the group consume nothing for now: what it asks for stays where it is.
    What to do: wait until an operator resumes the group; consumers do."""

    code = "consume_disabled"
    retryable = True
    retry_after_s = 5


class OffsetBeyondEnd(LakemqError):
    """The offset is above the one that the queue's next message gets: it can't be committed.
    What to do: commit an offset of a message that is there."""

    code = "offset_beyond_end"


class LogReplaced(LakemqError):
    """A broker's log is another one than that which was read, written to the lake or decided on before, or
    has lost a part of what was."""

    code = "log_replaced"


class ReceiptExpired(LakemqError):
    """The receipt ran out, or another took its place: the message is no longer its owner's.
    What to do: drop the result: the message comes again. Ask for more time with `invisible`."""

    code = "receipt_expired"


class RequestNotFound(LakemqError):
    """Nobody waits for a reply to that request: there was none, or it was answered, or it is too late.
    What to do: drop the reply."""

    code = "request_not_found"


class RequestTimeout(LakemqError):
    """No reply to the request came in time.
    What to do: ask again if asking twice does no harm, or give it more time."""

    code = "request_timeout"
    retryable = True


class FlowControl(LakemqError):
    """So much waits already that no more is taken on now.
    What to do: wait `retry_after_s`, or until less is under way, and try again."""

    code = "flow_control"
    retryable = True


class OverQuota(FlowControl):
    """The user has taken what its quota lets it: others are served. `quota`: of what; `closes`: there are too many
    connections, and this one is closed."""

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
    """The topic takes messages of another type: its `message_type` says which.
    What to do: send what the topic takes, or change its `message_type`."""

    code = "wrong_message_type"


class UnsupportedMediaType(LakemqError):
    """The content encoding or media type is not one that the gateway reads.
    What to do: send another media type or content encoding."""

    code = "unsupported_media_type"


class IdempotencyMismatch(LakemqError):
    """The idempotency key was used before, with another payload.
    What to do: use a new key for a new payload."""

    code = "idempotency_mismatch"


class StoreUnwritable(LakemqError):
    """The CommitLog takes no writes now: the disk is full, or a flush has failed.
    What to do: try again later; somebody must look at the broker's disk."""

    code = "store_unwritable"
    retryable = True


class NotEnoughReplicas(StoreUnwritable):
    """Fewer replicas are in sync than `replication.min_in_sync` asks for. Nothing is written; what was written before,
    and was waited for, may be stored.
    What to do: try again later with the same idempotency key; a replica has to come back."""

    code = "not_enough_replicas"
    retryable = True


class NotConfirmed(StoreUnwritable):
    """It was written, but not confirmed in time: it may be stored. The same request with the same idempotency key may
    be sent again.
    What to do: send it again with the same idempotency key."""

    code = "not_confirmed"
    retryable = True


class NotLeader(LakemqError):
    """A follower takes no writes. `leader`: the address of who does, where that is known.
    What to do: nothing: clients follow to the leader themselves."""

    code = "not_leader"
    retryable = True

    def __init__(self, detail: str, leader: str = "") -> None:
        super().__init__(detail)
        self.leader = leader
        self.members = {"leader": leader} if leader else {}


class Fenced(LakemqError):
    """Who asks, or is asked, goes by a leader that was replaced since."""

    code = "fenced"


class NotInSync(LakemqError):
    """The replica can't lead: it isn't in sync, or not heard of."""

    code = "not_in_sync"


class LeaderLives(LakemqError):
    """Nobody takes the lead by order while there is who leads, or may."""

    code = "leader_lives"


class Busy(LakemqError):
    """A bound of the gateway is reached; the same request may pass a little later.
    What to do: try again a little later."""

    code = "busy"
    retryable = True


class SettingsError(LakemqError):
    """A setting is unknown or impossible. The detail names it and where it was set.
    What to do: correct the setting that the detail names."""

    code = "invalid_settings"
    lasting = True


class LogDamaged(LakemqError):
    """Bytes of the CommitLog that were once written whole can't be read any more.
    What to do: tell the operator: `lakemq doctor` says what is damaged."""

    code = "log_damaged"
    lasting = True


class LogVersion(LakemqError):
    """The log was written in a version of its format that this lakemq can't read."""

    code = "log_version"
    lasting = True


class LakeUnreadable(LakemqError):
    """What has left the log should be in the lake, and can't be read there.
    What to do: tell the operator; what is in the log still can be read."""

    code = "lake_unreadable"


class LakeDamaged(LakemqError):
    """A table of the lake lacks what no log holds any more: going on would lose it in silence."""

    code = "lake_damaged"


class LogInUse(LakemqError):
    """Another process holds the data directory."""

    code = "log_in_use"


class PositionGone(LakemqError):
    """The log no longer holds that position, as retention has taken it; or it never came so far.
    What to do: go on at the first offset that is there."""

    code = "position_gone"


class NotInObjectStorage(LakemqError):
    """The lake is in object storage, and this is only done with one on a disk. Nothing was begun."""

    code = "not_in_object_storage"
    lasting = True


class StoreUnsafe(LakemqError):
    """The object store doesn't keep what a lake is built on: an object that is made once (If-None-Match)."""

    code = "store_unsafe"
    lasting = True
