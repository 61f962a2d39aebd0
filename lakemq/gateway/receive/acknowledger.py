"""What clients say about messages that are out: done with, or needed for longer."""

from __future__ import annotations

from collections.abc import Sequence

from lakemq.gateway.receive.records import acks_batch, changed_row
from lakemq.gateway.receive.run_out import RunOut
from lakemq.gateway.routing.executor import Executor
from lakemq.model.errors import InvalidRequest, ReceiptExpired
from lakemq.model.names import ACK_TOPIC, RECEIVE_TOPIC
from lakemq.storage.receipts import Out, Receipts

OK = "ok"
EXPIRED = "receipt_expired"
INVALID = "invalid_receipt"
DIGITS_MAX = 18


class Acknowledger:
    """Acknowledgements, and changes of invisibility, of one broker."""

    def __init__(self, executor: Executor, run_out: RunOut) -> None:
        self._executor = executor
        self._run_out = run_out

    @property
    def _receipts(self) -> Receipts:
        return self._executor.state.receipts

    async def acknowledge(self, group: str, receipts: Sequence[str]) -> list[str]:
        """The status of each: `ok`, also the second time; `receipt_expired`; `invalid_receipt` for what
        is no receipt of the group. Raises `StoreUnwritable`, with none acknowledged."""
        positions = [self.position(receipt) for receipt in receipts]
        queue = (await self._executor.ensure_topic(ACK_TOPIC)).queues[0]
        known = [position for position in positions if position is not None]
        await self._executor.settled(known)
        # From here to the claims nothing comes in between: what is out now is acknowledged.
        statuses = [INVALID if position is None else self.status(group, position) for position in positions]
        valid = [position for position, status in zip(positions, statuses, strict=True) if status == OK]
        claimed = self._executor.claim([position for position in valid if position is not None])
        if claimed:
            batch = acks_batch(group, {receipt: self._receipts.out[receipt] for receipt in claimed})
            await self._executor.execute_batch(batch, [(queue, len(claimed))], 0, claimed)
        return statuses

    def status(self, group: str, receipt: int) -> str:
        """What an acknowledgement of the receipt at a position is answered."""
        out = self._receipts.out.get(receipt)
        if out is not None:
            return OK if out.subscription.group == group else INVALID
        if receipt in self._receipts.acked:
            return OK
        gone = receipt < self._executor.log.min_position
        return EXPIRED if gone or receipt in self._receipts.issued else INVALID

    def position(self, receipt: str) -> int | None:
        """Where the receipt is; None of what is none of this broker."""
        # Not `parse_message_id`: nothing is to be raised here, and this is on every message's way.
        name, _, digits = receipt.rpartition(".")
        if name != self._executor.name or not (digits.isascii() and digits.isdigit()) or len(digits) > DIGITS_MAX:
            return None
        return int(digits) if digits[0] != "0" else None  # position 0 is the topics' topic's

    async def change(self, group: str, receipt: str, invisible_ms: int) -> tuple[str, int]:
        """Have the message invisible from now on for so long; its new receipt, and until when.

        Raises `InvalidRequest`, `ReceiptExpired`, `StoreUnwritable`.
        """
        position = self.position(receipt)
        if position is None:
            raise InvalidRequest(f"{receipt[:200]!r} is no receipt of this broker")
        await self._executor.settled((position,))
        out = self._owned(group, position)
        until_ms = self._executor.log.now_ms() + invisible_ms
        row = changed_row(out, position, until_ms, self._executor.name)
        queue = self._executor.log.topics.queue(RECEIVE_TOPIC, 0)
        (where,) = await self._executor.execute([(position, row, queue)])
        assert where is not None, "what is out and not claimed is free"
        if not invisible_ms:
            await self._run_out.anticipate((where.position,))
        return self._executor.message_id(where.position), until_ms

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
