"""The outcome of an acknowledgement."""

from __future__ import annotations

from enum import StrEnum

from lakemq.model.errors import InvalidRequest, MessageNotFound, ReceiptExpired


class AckStatus(StrEnum):
    """A broker's answer for one message that was acknowledged or nacked. Each value equals the contract's text."""

    OK = "ok"
    """It counts, either this time or an earlier one."""
    DUPLICATE = "duplicate"
    """The message was already nacked: it is delivered again only once."""
    RECEIPT_EXPIRED = "receipt_expired"
    """Too late: the message's time has expired, or it was already acknowledged or nacked. It may be delivered again."""
    INVALID_RECEIPT = "invalid_receipt"
    """The broker issued no such receipt."""
    MESSAGE_NOT_FOUND = "message_not_found"
    """The message was deleted with its topic, so it isn't delivered again."""
    UNKNOWN = "unknown"
    """An answer of a newer broker that this client doesn't know."""

    @classmethod
    def _missing_(cls, value: object) -> AckStatus:
        return cls.UNKNOWN

    @property
    def counts(self) -> bool:
        """Whether the message is finished, by this call or an earlier one."""
        return self in (AckStatus.OK, AckStatus.DUPLICATE)

    def check(self, message_id: str) -> None:
        """Raises `ReceiptExpired`, `MessageNotFound` or `InvalidRequest`, unless it counts."""
        if self is AckStatus.RECEIPT_EXPIRED:
            raise ReceiptExpired(f"the receipt of message {message_id} is no longer valid: the message may come again")
        if self is AckStatus.MESSAGE_NOT_FOUND:
            raise MessageNotFound(f"message {message_id} was deleted with its topic")
        if not self.counts:
            raise InvalidRequest(f"the broker says of message {message_id}: {self.value}")
