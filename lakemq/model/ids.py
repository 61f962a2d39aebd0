"""Message ids: `{broker}.{log}-{epoch}.{position}`, URL-safe, so that a look-up by id needs no index.

`log` is the beginning of the log's UUID. Who needs more of an id than that it is one asks the broker
whose log it is: clients take it as it is.

A receipt, or a transaction's id, is the id of its row and a nonce: `{message id}-{16 hex digits}`. The row's own id
is public, the nonce is known to none but who was given it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from lakemq.model.errors import MessageNotFound

MESSAGE_ID_PATTERN = r"([A-Za-z0-9_-]{1,63})[.]([0-9a-f]{12}-[1-9][0-9]{0,9})[.](0|[1-9][0-9]{0,18})"
POSITION_DIGITS_MAX = 19
NONCE_DIGITS = 16
_DIGITS_PATTERN = rf"[0-9a-f]{{{NONCE_DIGITS}}}"
NONCE_PATTERN = f"-{_DIGITS_PATTERN}"
_NONCE = re.compile(_DIGITS_PATTERN)
_BEGIN = re.compile(MESSAGE_ID_PATTERN)
_MESSAGE_ID = re.compile(MESSAGE_ID_PATTERN + r"\Z")
_BROKER = re.compile(r"[A-Za-z0-9_-]{1,63}\Z")
_POSITION_MAX = 2**63 - 1


class MessageId(NamedTuple):
    """What an id says. `life`: log and epoch."""

    broker: str
    life: str
    position: int


def is_broker_name(name: str) -> bool:
    """Whether `name` can name a broker: `[A-Za-z0-9_-]{1,63}`."""
    return _BROKER.match(name) is not None


def format_message_id(broker: str, log: str, epoch: int, position: int) -> str:
    """The id of the message at `position` of `broker`'s log, whose UUID begins with `log`, 12 hex digits."""
    return f"{broker}.{log}-{epoch}.{position}"


def parse_message_id(message_id: str) -> MessageId:
    """What an id says; raises `MessageNotFound` for what was never an id."""
    found = _MESSAGE_ID.match(message_id)
    if found is None or int(found.group(3)) > _POSITION_MAX:
        raise MessageNotFound(f"{message_id[:200]!r} is no message id")
    return MessageId(found.group(1), found.group(2), int(found.group(3)))


def with_nonce(message_id: str, nonce: str) -> str:
    """The receipt or the transaction's id of the row with that message id."""
    return f"{message_id}-{nonce}"


def split_nonce(text: str) -> tuple[str, str]:
    """`(message id, nonce)` of a receipt or a transaction's id; of any other text all of it, and no nonce."""
    message_id, _, nonce = text.rpartition("-")
    return (message_id, nonce) if _NONCE.fullmatch(nonce) else (text, "")


def broker_of_id(text: str) -> str | None:
    """The broker that is named by what begins as an id does, whatever follows; None where nothing does."""
    found = _BEGIN.match(text)
    return None if found is None else found.group(1)
