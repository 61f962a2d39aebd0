"""The clients for programs with asyncio: each lives on the event loop that it is first used on.

The same names and methods as in `lakemq.client`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemq.client import shared

if TYPE_CHECKING:
    from lakemq.client.aio.admin import Admin, AdminOptions
    from lakemq.client.aio.app_testing import TestApp
    from lakemq.client.aio.application import App
    from lakemq.client.aio.frames import read_backlog, read_sql, read_topic, write_topic
    from lakemq.client.aio.producer import Producer, SendFuture
    from lakemq.client.aio.pull_consumer import PullConsumer, PullOptions
    from lakemq.client.aio.push_consumer import PushConsumer
    from lakemq.client.aio.simple_consumer import SimpleConsumer, SimpleOptions
    from lakemq.client.aio.sql_call import SqlOptions, sql
    from lakemq.client.aio.transaction_producer import TransactionListener, TransactionProducer
    from lakemq.client.shared import *  # noqa: F403

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
    "Admin": "lakemq.client.aio.admin",
    "AdminOptions": "lakemq.client.aio.admin",
    "App": "lakemq.client.aio.application",
    "TestApp": "lakemq.client.aio.app_testing",
    "Producer": "lakemq.client.aio.producer",
    "PullConsumer": "lakemq.client.aio.pull_consumer",
    "PullOptions": "lakemq.client.aio.pull_consumer",
    "PushConsumer": "lakemq.client.aio.push_consumer",
    "SendFuture": "lakemq.client.aio.producer",
    "SimpleConsumer": "lakemq.client.aio.simple_consumer",
    "SimpleOptions": "lakemq.client.aio.simple_consumer",
    "SqlOptions": "lakemq.client.aio.sql_call",
    "TransactionListener": "lakemq.client.aio.transaction_producer",
    "TransactionProducer": "lakemq.client.aio.transaction_producer",
    "read_backlog": "lakemq.client.aio.frames",
    "read_sql": "lakemq.client.aio.frames",
    "read_topic": "lakemq.client.aio.frames",
    "write_topic": "lakemq.client.aio.frames",
    "sql": "lakemq.client.aio.sql_call",
}


def __getattr__(name: str) -> object:
    return shared.load(name, __name__, _MODULES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
