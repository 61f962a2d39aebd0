"""The names of `lakemq.client.errors`, which is loaded when one of them is first used."""
# ruff: noqa: F405 (pyright looks whether each is there)

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakemq.client.errors import *  # noqa: F403

__all__: list[str] = [
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


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("lakemq.client.errors"), name)
