"""`TransactionProducer` for programs with asyncio."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, Self, Unpack

from lakemq.client.aio.producer import Producer
from lakemq.client.consume.listener import check_transaction_listener
from lakemq.client.durations import Seconds
from lakemq.client.outgoing import Message, MessageFields, message_of
from lakemq.client.produce.options import ProducerOptions
from lakemq.client.produce.transactions import Resolution, TransactionReceipt, Transactions
from lakemq.client.view import MessageView


class TransactionListener(Protocol):
    """A program's part in its transactions."""

    async def execute_local_transaction(self, message: Message, transaction_id: str, argument: Any) -> Resolution:
        """Execute the local transaction of the message, which is stored but not visible yet. `argument` is the one of
        `send_in_transaction`. An error counts as UNKNOWN, and is raised to the sender."""
        ...

    async def check_local_transaction(self, message: MessageView) -> Resolution:
        """Return how the transaction of `message.transaction_id` ended, which any producer of the group may have begun.
        An error counts as UNKNOWN: the broker asks again."""
        ...


class TransactionProducer(Producer):
    """A producer that also sends messages that become visible only if a local transaction commits.

    It answers the broker's checks for its whole group, starting with its first call, or `start`.
    """

    def __init__(
        self,
        group: str,
        listener: TransactionListener,
        brokers: str | Sequence[str] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        check_transaction_listener(listener, asynchronous=True)
        super().__init__(brokers, **options)
        self._group = group
        self._listener = listener
        self._transactions: Transactions | None = None

    async def start(self) -> None:
        """Answer the group's checks from now on. Starting twice does no harm."""
        self._begun()

    async def send_in_transaction(
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
        transactions = self._begun()
        message = message_of(body, fields)
        half = await transactions.begin(topic, message, self._encoder)
        resolution = Resolution.UNKNOWN
        try:
            resolution = Resolution(
                await self._listener.execute_local_transaction(message, half.transaction_id, argument)
            )
        finally:
            await transactions.tell(half, resolution)
        return half.ended(resolution)

    async def close(self, timeout_s: Seconds | None = None) -> None:
        """Like `Producer.close`. The producer also stops answering checks."""
        if self._transactions is not None:
            await self._transactions.stop()
        await super().close(timeout_s)

    async def __aenter__(self) -> Self:
        self._begun()
        return self

    def _begun(self) -> Transactions:
        if self._transactions is None:
            check = self._listener.check_local_transaction
            self._transactions = Transactions(self._core, self._group, check, self._tracing)
            self._transactions.start()
        return self._transactions
