"""`TransactionProducer` for programs without asyncio."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, Unpack

from lakemq.client.consume.listener import check_transaction_listener
from lakemq.client.durations import Seconds
from lakemq.client.in_thread import in_thread
from lakemq.client.outgoing import Message, MessageFields, message_of
from lakemq.client.produce.options import ProducerOptions
from lakemq.client.produce.transactions import Resolution, TransactionReceipt, Transactions
from lakemq.client.producer import Producer
from lakemq.client.view import MessageView

CHECK_THREADS = 4


class TransactionListener(Protocol):
    """A program's part in its transactions."""

    def execute_local_transaction(self, message: Message, transaction_id: str, argument: Any) -> Resolution:
        """Execute the local transaction of the message, which is stored but not visible yet. It is called in the
        sender's thread. `argument` is the one of `send_in_transaction`. An error counts as UNKNOWN, and is raised to
        the sender."""
        ...

    def check_local_transaction(self, message: MessageView) -> Resolution:
        """Return how the transaction of `message.transaction_id` ended, which any producer of the group may have begun.
        It is called in a thread of the producer. An error counts as UNKNOWN: the broker asks again."""
        ...


class TransactionProducer(Producer):
    """A producer that also sends messages that become visible only if a local transaction commits.

    It answers the broker's checks for its whole group as soon as it is created.
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
        """Answer the group's checks from now on. The constructor already does this."""
        self._loop.call(self._transactions.start)

    def send_in_transaction(
        self,
        topic: str,
        body: object = None,
        argument: Any = None,
        **fields: Unpack[MessageFields],
    ) -> TransactionReceipt:
        """Store a message that isn't visible yet, let the listener execute the local transaction, and tell the broker
        how it ended.

        Raises the error if the message can't be stored, the listener's error, and `TransactionResolved` if the
        transaction already has the opposite outcome. If the broker couldn't be told, that is not an error: it will ask.
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
        """Like `Producer.close`. The producer also stops answering checks."""
        if self._loop.forked:
            return
        self._loop.run(self._stop())
        super().close(timeout_s)

    async def _stop(self) -> None:
        await self._transactions.stop()
        # Here, as it takes a lock that a signal's handler could find taken in the closing thread.
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def _check(self, message: MessageView) -> Resolution:
        check = self._listener.check_local_transaction
        return await in_thread(self._pool, check, message)
