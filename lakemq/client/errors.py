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
    """Nothing answered: no connection, or it broke, or the time for an answer ran out.

    `sent` says whether the request may have reached the broker, and so may have been carried out:
    False when there never was a connection.
    What to do: check the address and the broker; a send may be repeated with the same idempotency key.
    """

    code = "unreachable"
    retryable = True

    def __init__(self, detail: str, sent: bool = True) -> None:
        super().__init__(detail)
        self.sent = sent


class Untrusted(NotTrusted, Unreachable):
    """Who answers has no certificate that is trusted here, or one of another name; or a name server that is asked by
    https names nobody but brokers that would be asked without. Nothing was sent to them, and it is the same until
    somebody changes a certificate, an address, or what is trusted.
    What to do: name the authority by LAKEMQ_TLS__CA_FILE, or correct the address."""

    retryable = False

    def __init__(self, detail: str) -> None:
        Unreachable.__init__(self, detail, sent=False)


class Closed(LakemqError):
    """The client is closed: it takes nothing any more.
    What to do: make another client."""

    code = "closed"


class SendFailed(LakemqError):
    """A producer was closed and couldn't store all that it was given. `failures`: each message that nobody
    has been told of, and why; that of `Unreachable.sent` or of code `closed` may have been stored all the same.
    What to do: send what is in `failures` again, or keep it elsewhere."""

    code = "send_failed"

    def __init__(self, detail: str, failures: Sequence[tuple[Message, LakemqError]] = ()) -> None:
        super().__init__(detail)
        self.failures = tuple(failures)


class RowsNotSent(LakemqError):
    """Rows of a frame could not be made messages, or not be stored. `rows`: the number of each, from 0, and why; at
    most 100 of them. `next_row`: no row from there on was sent. `stored`: so many rows before it are stored.
    What to do: correct the rows that are named, and send these and those from `next_row` on."""

    code = "rows_not_sent"

    def __init__(
        self, detail: str, rows: Sequence[tuple[int, LakemqError]] = (), next_row: int = 0, stored: int = 0
    ) -> None:
        super().__init__(detail)
        self.rows = tuple(rows)
        self.next_row = next_row
        self.stored = stored


class SearchEnded(LakemqError):
    """A broker has looked through as much as it does for one question, so older messages may not have been found.
    What to do: give `begin` and `end`, or ask by SQL."""

    code = "search_ended"
