"""`TransactionProducer` for programs without asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, Unpack

from lakemq.client.consume.listener import check_transaction_listener
from lakemq.client.durations import Seconds
from lakemq.client.outgoing import Message, MessageFields, message_of
from lakemq.client.produce.options import ProducerOptions
from lakemq.client.produce.transactions import Resolution, TransactionReceipt, Transactions
from lakemq.client.producer import Producer
from lakemq.client.view import MessageView

CHECK_THREADS = 4


class TransactionListener(Protocol):
    """What a program does for its transactions."""

    def execute_local_transaction(self, message: Message, transaction_id: str, argument: Any) -> Resolution:
        """Do what belongs to the message, which is stored but seen by nobody; in the sender's thread.
        `argument` is what `send_in_transaction` was given. An error counts as UNKNOWN, and is raised to
        the sender."""
        ...

    def check_local_transaction(self, message: MessageView) -> Resolution:
        """How the transaction of `message.transaction_id` ended, which any producer of the group may have
        begun; in a thread of the producer's. An error counts as UNKNOWN: the broker asks again."""
        ...


class TransactionProducer(Producer):
    """A producer that also sends messages that are seen only if a local transaction commits.

    It answers the broker's checks for its whole group as soon as it is made.
    """

    def __init__(
        self,
        group: str,
        listener: TransactionListener,
        brokers: str | Sequence[str] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        check_transaction_listener(listener)
        super().__init__(brokers, **options)
        self._listener = listener
        self._pool = ThreadPoolExecutor(CHECK_THREADS, thread_name_prefix="lakemq-check")
        self._transactions = Transactions(self._core, group, self._check, self._tracing)
        self.start()

    def start(self) -> None:
        """Answer the group's checks from now on: done already."""
        self._loop.call(self._transactions.start)

    def send_in_transaction(
        self,
        topic: str,
        body: object = None,
        argument: Any = None,
        **fields: Unpack[MessageFields],
    ) -> TransactionReceipt:
        """Store a message that nobody sees, have the listener execute the local transaction, and tell the
        broker how it ended.

        Raises what keeps the message from being stored, what the listener raised, and
        `TransactionResolved` where it ended otherwise meanwhile. That the broker couldn't be told is no
        error: it will ask.
        """
        message = message_of(body, fields)
        half = self._loop.run(self._transactions.begin(topic, message, self._encoder))
        resolution = Resolution.UNKNOWN
        try:
            resolution = Resolution(self._listener.execute_local_transaction(message, half.transaction_id, argument))
        finally:
            self._loop.run(self._transactions.tell(half, resolution))
        return half.ended(resolution)

    def close(self, timeout_s: Seconds | None = None) -> None:
        """As `Producer.close`; and answer no more checks."""
        if self._loop.forked:
            return
        self._loop.run(self._transactions.stop())
        self._pool.shutdown(wait=False, cancel_futures=True)
        super().close(timeout_s)

    async def _check(self, message: MessageView) -> Resolution:
        check = self._listener.check_local_transaction
        return await asyncio.get_running_loop().run_in_executor(self._pool, check, message)
