"""The names that programs with asyncio and without it share, and the module of each."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from lakemq.client import error_names

if TYPE_CHECKING:
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
        GroupInfo,
        GroupSummary,
        MemberInfo,
        OffsetChange,
        QueueInfo,
        QueueLag,
        Redrive,
        RedriveProgress,
        RedriveResult,
        SubscriptionInfo,
        TopicInfo,
    )
    from lakemq.client.outgoing import Message, MessageFields, SendReceipt
    from lakemq.client.produce.options import ProducerOptions
    from lakemq.client.produce.selecting import QueueSelector
    from lakemq.client.produce.transactions import Resolution, TransactionReceipt
    from lakemq.client.results import RedriveStarted
    from lakemq.client.route_source import BrokerAddress, RouteSource
    from lakemq.client.view import MessageView
    from lakemq.model.message_queue import MessageQueue
    from lakemq.model.rebalance import Strategy, by_configuration, by_machine_room

__all__: list[str] = [
    "AckStatus",
    "Bounds",
    "BrokerAddress",
    "ClientInfo",
    "ConsumeLater",
    "ConsumeResult",
    "DeadLetter",
    "Frame",
    "GroupInfo",
    "GroupSummary",
    "Limits",
    "MemberInfo",
    "Message",
    "MessageBatch",
    "MessageFields",
    "MessageQueue",
    "MessageView",
    "OffsetChange",
    "ProducerOptions",
    "PushOptions",
    "QueueInfo",
    "QueueLag",
    "QueueSelector",
    "Redrive",
    "RedriveProgress",
    "RedriveResult",
    "RedriveStarted",
    "ReplyFields",
    "Resolution",
    "RouteSource",
    "SendReceipt",
    "Strategy",
    "SubscriptionInfo",
    "TopicInfo",
    "TransactionReceipt",
    "by_configuration",
    "by_machine_room",
]
__all__ += error_names.__all__

MODULES = {
    **dict.fromkeys(error_names.__all__, "lakemq.client.errors"),
    "ClientInfo": "lakemq.client.manage.results",
    "GroupInfo": "lakemq.client.manage.results",
    "GroupSummary": "lakemq.client.manage.results",
    "MemberInfo": "lakemq.client.manage.results",
    "OffsetChange": "lakemq.client.manage.results",
    "QueueInfo": "lakemq.client.manage.results",
    "QueueLag": "lakemq.client.manage.results",
    "Redrive": "lakemq.client.manage.results",
    "RedriveProgress": "lakemq.client.manage.results",
    "RedriveResult": "lakemq.client.manage.results",
    "SubscriptionInfo": "lakemq.client.manage.results",
    "TopicInfo": "lakemq.client.manage.results",
    "Frame": "lakemq.client.frame",
    **dict.fromkeys(error_names.__all__, "lakemq.client.errors"),
    "AckStatus": "lakemq.client.consume.ack_status",
    "Bounds": "lakemq.client.consume.fetch",
    "BrokerAddress": "lakemq.client.route_source",
    "ConsumeLater": "lakemq.client.consume.listener",
    "ConsumeResult": "lakemq.client.consume.listener",
    "DeadLetter": "lakemq.client.dead_letter",
    "Limits": "lakemq.client.consume.process_queue",
    "Message": "lakemq.client.outgoing",
    "MessageBatch": "lakemq.client.consume.message_batch",
    "MessageFields": "lakemq.client.outgoing",
    "MessageQueue": "lakemq.model.message_queue",
    "MessageView": "lakemq.client.view",
    "ProducerOptions": "lakemq.client.produce.options",
    "PushOptions": "lakemq.client.consume.push_options",
    "QueueSelector": "lakemq.client.produce.selecting",
    "RedriveStarted": "lakemq.client.results",
    "ReplyFields": "lakemq.client.consume.reply",
    "Resolution": "lakemq.client.produce.transactions",
    "RouteSource": "lakemq.client.route_source",
    "SendReceipt": "lakemq.client.outgoing",
    "Strategy": "lakemq.model.rebalance",
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
