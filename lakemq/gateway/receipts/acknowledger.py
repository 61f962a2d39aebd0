"""What clients say about messages that are out: done with, or needed for longer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lakemq.gateway.effects.executor import Executor
from lakemq.gateway.http.in_slices import Pause
from lakemq.gateway.receipts.records import acks, changed_row
from lakemq.gateway.receipts.run_out import RunOut
from lakemq.model.errors import InvalidRequest, ReceiptExpired
from lakemq.model.ids import broker_of_id
from lakemq.model.names import ACK_TOPIC, RECEIVE_TOPIC
from lakemq.storage.log.appends import BatchAppend
from lakemq.storage.state.receipts import Out, Receipts
from lakemq.storage.state.secret_ids import SecretIds

OK = "ok"
EXPIRED = "receipt_expired"
INVALID = "invalid_receipt"


class Acknowledger:
    """Acknowledgements, and changes of invisibility, of one broker."""

    def __init__(self, executor: Executor, secret_ids: SecretIds, run_out: RunOut) -> None:
        self._executor = executor
        self._secret_ids = secret_ids
        self._run_out = run_out

    @property
    def _receipts(self) -> Receipts:
        return self._executor.state.receipts

    async def acknowledge(self, group: str, receipts: Sequence[str]) -> list[str]:
        """The status of each: `ok`, also the second time; `receipt_expired`; `invalid_receipt` for what
        is no receipt of the group. Raises `StoreUnwritable`, with none acknowledged."""
        positions = await self.positions(receipts)
        queue = (await self._executor.ensure_topic(ACK_TOPIC)).queues[0]
        known = [position for position in positions if position is not None]
        await self._executor.settled(known)
        # From here to the claims nothing comes in between: what is out now is acknowledged.
        statuses = [
            self.status_of_other(receipt) if position is None else self.status(group, position)
            for receipt, position in zip(receipts, positions, strict=True)
        ]
        valid = [position for position, status in zip(positions, statuses, strict=True) if status == OK]
        claimed = self._executor.claim([position for position in valid if position is not None])
        if claimed:
            out = self._receipts.out
            content = acks(group, {receipt: out[receipt] for receipt in claimed})
            await self._executor.execute_claimed(BatchAppend(content, [(queue, len(claimed))], 0), claimed)
        return statuses

    def status(self, group: str, receipt: int) -> str:
        """What an acknowledgement of the receipt at a position is answered."""
        receipts = self._receipts
        out = receipts.out.get(receipt)
        if out is not None:
            return OK if out.subscription.group == group else INVALID
        if receipt in receipts.acked:
            return OK
        gone = receipt < self._executor.log.min_position
        return EXPIRED if gone or receipt in receipts.issued else INVALID

    def status_of_other(self, receipt: str) -> str:
        """What of a text that is no receipt of this log: what looks like one of this broker was of another log, or
        of a part of this one that was lost, or is guessed; whether the message is out is not told."""
        return EXPIRED if broker_of_id(receipt) == self._executor.ids.broker else INVALID

    def position(self, receipt: str) -> int | None:
        """Where the receipt is; None of what is none of this broker."""
        return self._secret_ids.find(receipt)

    async def positions(self, receipts: Iterable[str]) -> list[int | None]:
        """`position` of each; others go on meanwhile."""
        pause, found = Pause(), list[int | None]()
        for receipt in receipts:
            found.append(self._secret_ids.find(receipt))
            await pause()
        return found

    async def change(self, group: str, receipt: str, invisible_ms: int) -> tuple[str, int]:
        """Have the message invisible from now on for so long; its new receipt, and until when.

        Raises `InvalidRequest`, `ReceiptExpired`, `StoreUnwritable`.
        """
        position = self.position(receipt)
        if position is None and self.status_of_other(receipt) == EXPIRED:
            raise ReceiptExpired("this log has given no such receipt, or the part of it that did was lost")
        if position is None:
            raise InvalidRequest(f"{receipt[:200]!r} is no receipt of this broker")
        await self._executor.settled((position,))
        out = self._owned(group, position)
        until_ms = self._executor.log.now_ms() + invisible_ms
        row = changed_row(out, position, until_ms, self._executor.ids)
        queue = self._executor.log.topics.queue(RECEIVE_TOPIC, 0)
        (where,) = await self._executor.execute([(position, row, queue)])
        assert where is not None, "what is out and not claimed is free"
        if not invisible_ms:
            await self._run_out.anticipate((where.position,))
        return self._secret_ids.of(where.position), until_ms

    def _owned(self, group: str, receipt: int) -> Out:
        out = self._receipts.out.get(receipt)
        if out is None:
            status = self.status(group, receipt)
            if status == INVALID:
                raise InvalidRequest("that is no receipt")
            raise ReceiptExpired("the message was acknowledged" if status == OK else "the receipt is no longer valid")
        if out.subscription.group != group:
            raise InvalidRequest(f"the receipt is not of group {group!r}")
        return out
