"""A program that uses the producers, as a user's type checker sees it: all rules of pyright's strict mode.

The tests run it too.
"""
# pyright: strict

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, assert_type

from lakemq.client import (
    LakemqError,
    Message,
    MessageView,
    Producer,
    Resolution,
    SendFuture,
    SendReceipt,
    TransactionListener,
    TransactionProducer,
    TransactionReceipt,
    aio,
)

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def send(brokers: str, topic: str) -> Sequence[SendReceipt]:
    """Each way of sending."""
    told: list[SendFuture] = []
    with Producer(brokers, linger_ms=2, compression="zstd", ack="sync", retries=3) as producer:
        receipt = assert_type(
            producer.send(topic, "text", tag="t", keys=["a", "b"], properties={"n": "1"}), SendReceipt
        )
        future = assert_type(producer.send_async(topic, b"bytes", ordering_key="order-1"), SendFuture)
        future.add_done_callback(told.append)
        assert_type(future.exception(), LakemqError | None)
        delayed = producer.send(topic, Message(body="later", delay=timedelta(milliseconds=1)))
        past = producer.send(topic, "past", deliver_at=LONG_AGO)
        producer.send_oneway(topic, "gone", queue_id=0)
        batch = assert_type(producer.send_batch(topic, ["a", b"b", Message(body="c", tag="t")]), list[SendReceipt])
        producer.flush()
        return [receipt, future.result(10), delayed, past, *batch]


class Transfers(TransactionListener):
    """Commits what its argument says."""

    def execute_local_transaction(self, message: Message, transaction_id: str, argument: Any) -> Resolution:
        """The local transaction."""
        return Resolution.COMMIT if argument == "good" else Resolution.ROLLBACK

    def check_local_transaction(self, message: MessageView) -> Resolution:
        """How it ended."""
        assert_type(message.transaction_id, str | None)
        return Resolution.UNKNOWN


def transfer(brokers: str, topic: str) -> TransactionReceipt:
    """A transaction."""
    with TransactionProducer("transfers", Transfers(), brokers) as producer:
        return assert_type(producer.send_in_transaction(topic, "20", "good"), TransactionReceipt)


async def send_with_asyncio(brokers: str, topic: str) -> Sequence[SendReceipt]:
    """The same with asyncio."""
    async with aio.Producer([brokers], tracing=False, routes=None) as producer:
        receipt = assert_type(await producer.send(topic, "text", delay_level=0), SendReceipt)
        future = assert_type(await producer.send_async(topic, "text"), aio.SendFuture)
        batch = assert_type(await producer.send_batch(topic, ["a"]), list[SendReceipt])
        return [receipt, assert_type(await future, SendReceipt), *batch]


def read(message: MessageView) -> tuple[str, bytes, Any]:
    """What a received message has."""
    assert_type(message.properties["n"], str)
    assert_type(message.queue.broker, str)
    return message.text(), message.body, message.json()
