"""Answers in one write: what ASGI sends in two would be two calls of the system, and wake its reader twice."""

from __future__ import annotations

import asyncio

_INTERIM = b"HTTP/1.1 100 "
_COPIED_BYTES_MAX = 64 * 1024
"""A longer body isn't copied behind its head: that costs more than a second write."""


class OneWrite:
    """Stands for a connection's transport to uvicorn's cycle of one request: an answer's head waits for what follows
    it. Not for HEAD, whose answer has nothing else."""

    __slots__ = ("_head", "_is_begun", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._head = b""
        self._is_begun = False

    def write(self, data: bytes | memoryview) -> None:
        """Write it, or keep it for the next."""
        if self._is_begun:
            head, self._head = self._head, b""
            if head and len(data) > _COPIED_BYTES_MAX:
                self._transport.write(head)
                head = b""
            self._transport.write(head + data if head else data)
        elif bytes(data[: len(_INTERIM)]) == _INTERIM:
            self._transport.write(data)
        else:
            self._is_begun = True
            self._head = bytes(data)

    def is_closing(self) -> bool:
        """Whether the connection is closed, or about to be."""
        return self._transport.is_closing()

    def close(self) -> None:
        """Close the connection, once all is written."""
        if self._head:
            self.write(b"")
        self._transport.close()
