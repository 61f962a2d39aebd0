"""The names that programs with asyncio and without it share, and the module of each."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from lakemq.client import error_names

if TYPE_CHECKING:
    from lakemq.client.app.health import Health
    from lakemq.client.app.memory import Nacked, Sent
    from lakemq.client.app.options import AppOptions
    from lakemq.client.app.parameters import Resource
    from lakemq.client.bodies.decoder import DecodeError, Decoder, Received
    from lakemq.client.bodies.encoder import Encoded, Encoder
    from lakemq.client.consume.ack_status import AckStatus
    from lakemq.client.consume.fetch import Bounds
    from lakemq.client.consume.listener import ConsumeLater, ConsumeResult
    from lakemq.client.consume.message_batch import MessageBatch
    from lakemq.client.consume.process_queue import Limits
    from lakemq.client.consume.push_options import PushOptions
    from lakemq.client.consume.reply import ReplyFields
    from lakemq.client.dead_letter import DeadLetter
    from lakemq.client.error_names import *  # noqa: F403
    from lakemq.client.frame import Frame
    from lakemq.client.manage.results import (
        ClientInfo,
        ColumnInfo,
        DeadLetterCause,
        DeadLetterCauses,
        Discarded,
        GroupInfo,
        GroupSummary,
        MemberInfo,
        OffsetChange,
        OpenTransaction,
        QueueInfo,
        QueueLag,
        Redrive,
        RedriveProgress,
        RedriveResult,
        ScheduledMessage,
        SchemaInfo,
        SubscriptionInfo,
        TopicInfo,
    )
    from lakemq.client.manage.users import AccessAnswer, PolicyInfo, TokenInfo, UserInfo
    from lakemq.client.outgoing import Message, MessageFields, SendReceipt
    from lakemq.client.produce.options import ProducerOptions
    from lakemq.client.produce.selecting import QueueSelector
    from lakemq.client.produce.transactions import Resolution, TransactionReceipt
    from lakemq.client.results import SqlRows
    from lakemq.client.route_source import BrokerAddress, RouteSource
    from lakemq.client.user_api import NewToken
    from lakemq.client.view import MessageView
    from lakemq.model.infer_schema import Inferred
    from lakemq.model.message_queue import MessageQueue
    from lakemq.model.rebalance import Strategy, by_configuration, by_machine_room

__all__: list[str] = [
    "AccessAnswer",
    "AckStatus",
    "AppOptions",
    "Bounds",
    "BrokerAddress",
    "ClientInfo",
    "ColumnInfo",
    "ConsumeLater",
    "ConsumeResult",
    "DeadLetter",
    "DeadLetterCause",
    "DeadLetterCauses",
    "DecodeError",
    "Decoder",
    "Discarded",
    "Encoded",
    "Encoder",
    "Frame",
    "GroupInfo",
    "GroupSummary",
    "Health",
    "Inferred",
    "Limits",
    "MemberInfo",
    "Message",
    "MessageBatch",
    "MessageFields",
    "MessageQueue",
    "MessageView",
    "Nacked",
    "NewToken",
    "OffsetChange",
    "OpenTransaction",
    "PolicyInfo",
    "ProducerOptions",
    "PushOptions",
    "QueueInfo",
    "QueueLag",
    "QueueSelector",
    "Received",
    "Redrive",
    "RedriveProgress",
    "RedriveResult",
    "ReplyFields",
    "Resolution",
    "Resource",
    "RouteSource",
    "ScheduledMessage",
    "SchemaInfo",
    "SendReceipt",
    "Sent",
    "SqlRows",
    "Strategy",
    "SubscriptionInfo",
    "TokenInfo",
    "TopicInfo",
    "TransactionReceipt",
    "UserInfo",
    "by_configuration",
    "by_machine_room",
]
__all__ += error_names.__all__

MODULES = {
    **dict.fromkeys(error_names.__all__, "lakemq.client.errors"),
    "AckStatus": "lakemq.client.consume.ack_status",
    "AppOptions": "lakemq.client.app.options",
    "Bounds": "lakemq.client.consume.fetch",
    "BrokerAddress": "lakemq.client.route_source",
    "ClientInfo": "lakemq.client.manage.results",
    "ColumnInfo": "lakemq.client.manage.results",
    "ConsumeLater": "lakemq.client.consume.listener",
    "ConsumeResult": "lakemq.client.consume.listener",
    "DeadLetter": "lakemq.client.dead_letter",
    "DeadLetterCause": "lakemq.client.manage.results",
    "DeadLetterCauses": "lakemq.client.manage.results",
    "DecodeError": "lakemq.client.bodies.decoder",
    "Decoder": "lakemq.client.bodies.decoder",
    "Discarded": "lakemq.client.manage.results",
    "Encoded": "lakemq.client.bodies.encoder",
    "Encoder": "lakemq.client.bodies.encoder",
    "Frame": "lakemq.client.frame",
    "GroupInfo": "lakemq.client.manage.results",
    "GroupSummary": "lakemq.client.manage.results",
    "Health": "lakemq.client.app.health",
    "Inferred": "lakemq.model.infer_schema",
    "Limits": "lakemq.client.consume.process_queue",
    "MemberInfo": "lakemq.client.manage.results",
    "Message": "lakemq.client.outgoing",
    "MessageBatch": "lakemq.client.consume.message_batch",
    "MessageFields": "lakemq.client.outgoing",
    "MessageQueue": "lakemq.model.message_queue",
    "MessageView": "lakemq.client.view",
    "Nacked": "lakemq.client.app.memory",
    "OffsetChange": "lakemq.client.manage.results",
    "OpenTransaction": "lakemq.client.manage.results",
    "ProducerOptions": "lakemq.client.produce.options",
    "PushOptions": "lakemq.client.consume.push_options",
    "QueueInfo": "lakemq.client.manage.results",
    "QueueLag": "lakemq.client.manage.results",
    "QueueSelector": "lakemq.client.produce.selecting",
    "Received": "lakemq.client.bodies.decoder",
    "Redrive": "lakemq.client.manage.results",
    "RedriveProgress": "lakemq.client.manage.results",
    "RedriveResult": "lakemq.client.manage.results",
    "ReplyFields": "lakemq.client.consume.reply",
    "Resolution": "lakemq.client.produce.transactions",
    "Resource": "lakemq.client.app.parameters",
    "RouteSource": "lakemq.client.route_source",
    "ScheduledMessage": "lakemq.client.manage.results",
    "SchemaInfo": "lakemq.client.manage.results",
    "SendReceipt": "lakemq.client.outgoing",
    "Sent": "lakemq.client.app.memory",
    "SqlRows": "lakemq.client.results",
    "Strategy": "lakemq.model.rebalance",
    "SubscriptionInfo": "lakemq.client.manage.results",
    "AccessAnswer": "lakemq.client.manage.users",
    "NewToken": "lakemq.client.user_api",
    "PolicyInfo": "lakemq.client.manage.users",
    "TokenInfo": "lakemq.client.manage.users",
    "TopicInfo": "lakemq.client.manage.results",
    "UserInfo": "lakemq.client.manage.users",
    "TransactionReceipt": "lakemq.client.produce.transactions",
    "by_configuration": "lakemq.model.rebalance",
    "by_machine_room": "lakemq.model.rebalance",
}


def load(name: str, package: str, modules: dict[str, str]) -> object:
    """What the package calls so; its module is loaded as the name is first used. Raises `AttributeError`."""
    module = modules.get(name)
    if module is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    return getattr(import_module(module), name)


def __getattr__(name: str) -> object:
    return load(name, __name__, MODULES)
