"""One name for all copies of a message, where two brokers may store it."""

from __future__ import annotations

import re
from typing import NamedTuple

SEND_ID = "send_id"
"""The property of a message that several brokers may have stored."""

SEPARATOR = "."
SENDER_CHARACTERS_MAX = 64
_SEND_IDS = re.compile(rf"([A-Za-z0-9_-]{{1,{SENDER_CHARACTERS_MAX}}})\.(0|[1-9][0-9]{{0,17}})")
"""Eighteen digits leave room in an int64 for the numbers of all messages of a request."""


class SendIds(NamedTuple):
    """The names of a request's messages: the sender's, which no other has, and a number that goes up by one. Written as
    the name of the first message."""

    sender: str
    begin: int

    def of(self, number: int) -> str:
        """The name of a message, by its number in the request."""
        return f"{self.sender}{SEPARATOR}{self.begin + number}"

    def __str__(self) -> str:
        return self.of(0)


def send_ids_of(text: str) -> SendIds | None:
    """What the text says; None: it names nothing."""
    found = _SEND_IDS.fullmatch(text)
    return None if found is None else SendIds(found[1], int(found[2]))
