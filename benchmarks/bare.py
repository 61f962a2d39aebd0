"""The least that a message and the answer to a long poll cost a process: a protocol on the gateway's event loop that
looks at nothing. A POST is answered, and what it brought goes to whoever waits with a GET, in answers as long as the
gateway's. `python -m benchmarks.bare`.
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractContextManager
from typing import Any

import uvloop

from benchmarks.listening import listening

_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
_STORED = _HEAD % 137 + bytes(137)
_DELIVERED_BYTES = 1_850
"""1 KiB as base64, with a message's other fields."""


class _Bare(asyncio.Protocol):
    """Takes each read for one whole request, as those of this benchmark are."""

    waiting: list[_Bare] = []  # noqa: RUF012 (of all connections)
    stored = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport  # uvloop's are no subclass of asyncio's
        self._begin = self._seen = _Bare.stored

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"GET"):
            self.waiting.append(self)
            if self._seen < _Bare.stored:
                self._deliver()
            return
        self._transport.write(_STORED)
        _Bare.stored += 1
        for each in tuple(self.waiting):
            each._deliver()

    def _deliver(self) -> None:
        self.waiting.remove(self)
        self._seen = _Bare.stored
        body = b'{"next_offset":%d,"":"%b"}' % (self._seen - self._begin, b"A" * _DELIVERED_BYTES)
        self._transport.write(_HEAD % len(body) + body)


def bare() -> AbstractContextManager[tuple[str, int]]:
    """One in a process of its own: its URL and its pid."""
    return listening("bare")


async def _serve() -> None:
    server = await asyncio.get_running_loop().create_server(_Bare, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    print(f"bare: listening on http://127.0.0.1:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve())
