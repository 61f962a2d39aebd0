"""The clients for programs with asyncio: each lives on the event loop that it is first used on.

The same names and methods as in `lakemq.client`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lakemq.client.aio.producer import Producer, SendFuture
    from lakemq.client.aio.pull_consumer import PullConsumer, PullOptions
    from lakemq.client.aio.push_consumer import PushConsumer
    from lakemq.client.aio.simple_consumer import SimpleConsumer, SimpleOptions
    from lakemq.client.aio.transaction_producer import TransactionListener, TransactionProducer
    from lakemq.client.consume.fetch import Bounds
    from lakemq.client.consume.listener import ConsumeLater, ConsumeResult
    from lakemq.client.consume.message_batch import MessageBatch
    from lakemq.client.consume.process_queue import Limits
    from lakemq.client.consume.push_options import PushOptions
    from lakemq.client.consume.reply import ReplyFields
    from lakemq.client.errors import Closed, SendFailed, Unreachable
    from lakemq.client.outgoing import Message, MessageFields, SendReceipt
    from lakemq.client.produce.options import ProducerOptions
    from lakemq.client.produce.transactions import Resolution, TransactionReceipt
    from lakemq.client.routes import BrokerAddress, MessageQueue, RouteSource
    from lakemq.client.view import MessageView
    from lakemq.model.errors import LakemqError
    from lakemq.model.rebalance import Strategy, by_configuration, by_machine_room

__all__ = [
    "Bounds",
    "BrokerAddress",
    "Closed",
    "ConsumeLater",
    "ConsumeResult",
    "LakemqError",
    "Limits",
    "Message",
    "MessageBatch",
    "MessageFields",
    "MessageQueue",
    "MessageView",
    "Producer",
    "ProducerOptions",
    "PullConsumer",
    "PullOptions",
    "PushConsumer",
    "PushOptions",
    "ReplyFields",
    "Resolution",
    "RouteSource",
    "SendFailed",
    "SendFuture",
    "SendReceipt",
    "SimpleConsumer",
    "SimpleOptions",
    "Strategy",
    "TransactionListener",
    "TransactionProducer",
    "TransactionReceipt",
    "Unreachable",
    "by_configuration",
    "by_machine_room",
]

_MODULES = {
    "Bounds": "lakemq.client.consume.fetch",
    "BrokerAddress": "lakemq.client.routes",
    "Closed": "lakemq.client.errors",
    "ConsumeLater": "lakemq.client.consume.listener",
    "ConsumeResult": "lakemq.client.consume.listener",
    "LakemqError": "lakemq.model.errors",
    "Limits": "lakemq.client.consume.process_queue",
    "Message": "lakemq.client.outgoing",
    "MessageBatch": "lakemq.client.consume.message_batch",
    "MessageFields": "lakemq.client.outgoing",
    "MessageQueue": "lakemq.client.routes",
    "MessageView": "lakemq.client.view",
    "Producer": "lakemq.client.aio.producer",
    "ProducerOptions": "lakemq.client.produce.options",
    "PullConsumer": "lakemq.client.aio.pull_consumer",
    "PullOptions": "lakemq.client.aio.pull_consumer",
    "PushConsumer": "lakemq.client.aio.push_consumer",
    "PushOptions": "lakemq.client.consume.push_options",
    "ReplyFields": "lakemq.client.consume.reply",
    "Resolution": "lakemq.client.produce.transactions",
    "RouteSource": "lakemq.client.routes",
    "SendFailed": "lakemq.client.errors",
    "SendFuture": "lakemq.client.aio.producer",
    "SendReceipt": "lakemq.client.outgoing",
    "SimpleConsumer": "lakemq.client.aio.simple_consumer",
    "SimpleOptions": "lakemq.client.aio.simple_consumer",
    "Strategy": "lakemq.model.rebalance",
    "TransactionListener": "lakemq.client.aio.transaction_producer",
    "TransactionProducer": "lakemq.client.aio.transaction_producer",
    "TransactionReceipt": "lakemq.client.produce.transactions",
    "Unreachable": "lakemq.client.errors",
    "by_configuration": "lakemq.model.rebalance",
    "by_machine_room": "lakemq.model.rebalance",
}


def __getattr__(name: str) -> object:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
