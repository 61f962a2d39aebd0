"""What the gateway answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from lakemq.client.view import MessageView

if TYPE_CHECKING:
    import pyarrow as pa

Status = Literal["found", "no_new_message", "no_matched_message", "offset_out_of_range"]


@dataclass(frozen=True, slots=True)
class Receipt:
    """Where one produced message was stored."""

    message_id: str
    queue_id: int
    queue_offset: int
    position: int
    store_time_ms: int


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Consecutive offsets of one queue."""

    queue_id: int
    first_queue_offset: int
    count: int


@dataclass(frozen=True, slots=True)
class TableReceipt:
    """Where the rows of a produced Arrow table were stored."""

    count: int
    first_position: int
    ranges: tuple[OffsetRange, ...]


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction that has begun, and the message that waits in it."""

    transaction_id: str
    message_id: str


@dataclass(frozen=True, slots=True)
class TransactionCheck:
    """The broker asks how a transaction ends; `check_times` counts from 1."""

    transaction_id: str
    check_times: int
    message: MessageView


@dataclass(frozen=True, slots=True)
class RedriveStarted:
    """A redrive that was taken on, of so many dead letters."""

    redrive_id: str
    matched: int


@dataclass(frozen=True, slots=True)
class Cursor:
    """The state of a queue that every pull answers; `next_offset` is where to go on."""

    status: Status
    next_offset: int
    min_offset: int
    max_offset: int


@dataclass(frozen=True, slots=True)
class Pulled(Cursor):
    """Messages of one queue, by offset. `holes`: the ranges of offsets, as begin and end, that were passed and hold
    no message any more."""

    messages: tuple[MessageView, ...]
    holes: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class PulledTable(Cursor):
    """Messages of one queue, by offset, as a table with columns of `lakemq.model.columns`."""

    table: pa.Table  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]


@dataclass(frozen=True, slots=True)
class SqlRows:
    """A statement's rows. `truncated`: there are more."""

    table: pa.Table  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    truncated: bool
