"""Whether the client has closed a connection, as the system knows it: also where what it sent is still unread."""

from __future__ import annotations

import asyncio
import select

_CLOSED = getattr(select, "POLLRDHUP", 0)
"""Linux's. Elsewhere only a connection that is broken, or closed on both sides, is told; that always is."""


def has_hung_up(transport: asyncio.BaseTransport) -> bool:
    """Whether nothing follows what it has sent. Reads nothing, and doesn't wait."""
    socket = transport.get_extra_info("socket")
    descriptor = -1 if socket is None else socket.fileno()
    if descriptor < 0:
        return False
    poll = select.poll()
    poll.register(descriptor, _CLOSED)
    return bool(poll.poll(0))
