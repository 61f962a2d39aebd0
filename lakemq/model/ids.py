"""Message ids: `{broker}.{position}`, URL-safe, so that a look-up by id needs no index."""

from __future__ import annotations

import re

from lakemq.model.errors import MessageNotFound

_MESSAGE_ID = re.compile(r"([A-Za-z0-9_-]{1,63})\.(0|[1-9][0-9]{0,18})\Z")
_BROKER = re.compile(r"[A-Za-z0-9_-]{1,63}\Z")
_POSITION_MAX = 2**63 - 1


def is_broker_name(name: str) -> bool:
    """Whether `name` can name a broker: `[A-Za-z0-9_-]{1,63}`."""
    return _BROKER.match(name) is not None


def format_message_id(broker: str, position: int) -> str:
    """The id of the message at `position` of `broker`'s log."""
    return f"{broker}.{position}"


def parse_message_id(message_id: str) -> tuple[str, int]:
    """`(broker, position)` of an id; raises `MessageNotFound` for what was never an id."""
    found = _MESSAGE_ID.match(message_id)
    if found is None or int(found.group(2)) > _POSITION_MAX:
        raise MessageNotFound(f"{message_id[:200]!r} is no message id")
    return found.group(1), int(found.group(2))
