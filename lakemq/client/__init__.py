"""Clients of the HTTP contract. They import only the contract, the wire and the model.

The names here are for programs without asyncio; `lakemq.client.aio` has the same for those with it.
A name's module is loaded when the name is first used, so that who needs one pays for one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemq.client import shared

if TYPE_CHECKING:
    from lakemq.client.admin import Admin
    from lakemq.client.aio.admin import AdminOptions
    from lakemq.client.aio.pull_consumer import PullOptions
    from lakemq.client.aio.simple_consumer import SimpleOptions
    from lakemq.client.aio.sql_call import SqlOptions
    from lakemq.client.app_testing import TestApp
    from lakemq.client.application import App
    from lakemq.client.frames import read_backlog, read_sql, read_topic, write_topic
    from lakemq.client.producer import Producer, SendFuture
    from lakemq.client.pull_consumer import PullConsumer
    from lakemq.client.push_consumer import PushConsumer
    from lakemq.client.shared import *  # noqa: F403
    from lakemq.client.simple_consumer import SimpleConsumer
    from lakemq.client.sql_call import sql
    from lakemq.client.transaction_producer import TransactionListener, TransactionProducer

__all__ = [
    "Admin",
    "AdminOptions",
    "App",
    "Producer",
    "PullConsumer",
    "PullOptions",
    "PushConsumer",
    "SendFuture",
    "SimpleConsumer",
    "SimpleOptions",
    "SqlOptions",
    "TestApp",
    "TransactionListener",
    "TransactionProducer",
    "read_backlog",
    "read_sql",
    "read_topic",
    "sql",
    "write_topic",
]
__all__ += shared.__all__

_MODULES = {
    **shared.MODULES,
    "Admin": "lakemq.client.admin",
    "AdminOptions": "lakemq.client.aio.admin",
    "App": "lakemq.client.application",
    "TestApp": "lakemq.client.app_testing",
    "Producer": "lakemq.client.producer",
    "PullConsumer": "lakemq.client.pull_consumer",
    "PullOptions": "lakemq.client.aio.pull_consumer",
    "PushConsumer": "lakemq.client.push_consumer",
    "SendFuture": "lakemq.client.producer",
    "SimpleConsumer": "lakemq.client.simple_consumer",
    "SimpleOptions": "lakemq.client.aio.simple_consumer",
    "SqlOptions": "lakemq.client.aio.sql_call",
    "TransactionListener": "lakemq.client.transaction_producer",
    "TransactionProducer": "lakemq.client.transaction_producer",
    "read_backlog": "lakemq.client.frames",
    "read_sql": "lakemq.client.frames",
    "read_topic": "lakemq.client.frames",
    "write_topic": "lakemq.client.frames",
    "sql": "lakemq.client.sql_call",
}


def __getattr__(name: str) -> object:
    return shared.load(name, __name__, _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
