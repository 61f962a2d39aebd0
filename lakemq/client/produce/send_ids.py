"""One name for all copies of a message, where two brokers may store it."""

from __future__ import annotations

from typing import NamedTuple

SEND_ID = "send_id"
"""The property of a message that several brokers may have stored."""

SEPARATOR = "."


class SendIds(NamedTuple):
    """The names of a batch's messages: the sender's, which no other has, and a number."""

    sender: str
    begin: int

    def of(self, number: int) -> str:
        """The name of a message, by its number in the batch."""
        return f"{self.sender}{SEPARATOR}{self.begin + number}"
