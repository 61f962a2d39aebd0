"""All errors that a program may catch: those of the contract, and the clients' own.

All are `LakemqError`s, with the stable `code`, the `detail` for people, `status` and `request_id` of the answer where
there was one, `retryable`, and `retry_after_s` where the broker said when. docs/errors.md says what to do about each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lakemq.client.wrong_type import WrongType
from lakemq.model.errors import (
    AlreadyDelivered,
    Busy,
    ClientNotFound,
    ConsumeDisabled,
    FlowControl,
    Forbidden,
    GroupInUse,
    GroupModelDiffers,
    GroupNotFound,
    IdempotencyMismatch,
    IncompatibleSchema,
    InvalidArrow,
    InvalidFilter,
    InvalidRequest,
    InvalidSql,
    InvalidTopic,
    LakemqError,
    LakeUnreadable,
    LogDamaged,
    MessageNotFound,
    MessageTooLarge,
    NotConfirmed,
    NotEnoughReplicas,
    NotLeader,
    OffsetBeyondEnd,
    OverQuota,
    PositionGone,
    QueueNotFound,
    ReadOnlyTopic,
    ReceiptExpired,
    RedriveNotFound,
    RequestNotFound,
    RequestTimeout,
    SchemaChanged,
    SchemaNotFound,
    SettingsError,
    StoreUnwritable,
    TokenNotFound,
    TopicNotFound,
    TransactionNotFound,
    TransactionResolved,
    Unauthenticated,
    UnsupportedMediaType,
    UserNotFound,
    WrongMessageType,
)
from lakemq.wire.tls import NotTrusted

if TYPE_CHECKING:
    from lakemq.client.outgoing import Message

__all__ = [
    "AlreadyDelivered",
    "Busy",
    "ClientNotFound",
    "Closed",
    "ConsumeDisabled",
    "FlowControl",
    "Forbidden",
    "GroupInUse",
    "GroupModelDiffers",
    "GroupNotFound",
    "IdempotencyMismatch",
    "IncompatibleSchema",
    "InvalidArrow",
    "InvalidFilter",
    "InvalidRequest",
    "InvalidSql",
    "InvalidTopic",
    "LakeUnreadable",
    "LakemqError",
    "LogDamaged",
    "MessageNotFound",
    "MessageTooLarge",
    "NotConfirmed",
    "NotEnoughReplicas",
    "NotLeader",
    "NotTrusted",
    "OffsetBeyondEnd",
    "OverQuota",
    "PositionGone",
    "QueueNotFound",
    "ReadOnlyTopic",
    "ReceiptExpired",
    "RedriveNotFound",
    "RequestNotFound",
    "RequestTimeout",
    "RowsNotSent",
    "SchemaChanged",
    "SchemaNotFound",
    "SearchEnded",
    "SendFailed",
    "SettingsError",
    "StoreUnwritable",
    "TokenNotFound",
    "TopicNotFound",
    "TransactionNotFound",
    "TransactionResolved",
    "Unauthenticated",
    "Unreachable",
    "UnsupportedMediaType",
    "Untrusted",
    "UserNotFound",
    "WrongMessageType",
    "WrongType",
]


class Unreachable(LakemqError):
    """No answer: the connection failed or broke, or the answer took too long.

    `sent` says whether the request may have reached the broker, and so may have been carried out:
    False when there never was a connection.
    What to do: check the address and the broker; you may repeat a send with the same idempotency key.
    """

    code = "unreachable"
    retryable = True

    def __init__(self, detail: str, sent: bool = True) -> None:
        super().__init__(detail)
        self.sent = sent


class Untrusted(NotTrusted, Unreachable):
    """The server's certificate is not trusted, or is for another name; or a name server on https lists only brokers on
    http. Nothing was sent to them, and retrying does not help until somebody changes a certificate, an address, or
    the trusted authorities.
    What to do: set LAKEMQ_TLS__CA_FILE to the authority, or correct the address."""

    retryable = False

    def __init__(self, detail: str) -> None:
        Unreachable.__init__(self, detail, sent=False)


class Closed(LakemqError):
    """The client is closed.
    What to do: create another client."""

    code = "closed"


class SendFailed(LakemqError):
    """A producer was closed before it could store all its messages. `failures`: each message whose future nobody
    checked, and why it failed; one with `Unreachable.sent` or the code `closed` may have been stored.
    What to do: send what is in `failures` again, or keep it elsewhere."""

    code = "send_failed"

    def __init__(self, detail: str, failures: Sequence[tuple[Message, LakemqError]] = ()) -> None:
        super().__init__(detail)
        self.failures = tuple(failures)


class RowsNotSent(LakemqError):
    """Rows of a frame could not be sent. `rows`: the number of each, from 0, and why; at most 100 of them.
    `next_row`: no row from there on was sent. `stored`: how many rows before it are stored.
    What to do: correct these rows, and send them and all from `next_row` on."""

    code = "rows_not_sent"

    def __init__(
        self, detail: str, rows: Sequence[tuple[int, LakemqError]] = (), next_row: int = 0, stored: int = 0
    ) -> None:
        super().__init__(detail)
        self.rows = tuple(rows)
        self.next_row = next_row
        self.stored = stored


class SearchEnded(LakemqError):
    """A broker has reached its limit for one search, so older messages may be missing.
    What to do: give `begin` and `end`, or use SQL."""

    code = "search_ended"
