"""The floor: the least that an ASGI application does with a produce request.

The gateway's server and configuration, with a function that reads the body and answers 200 with a
body as long as the gateway's. `python -m benchmarks.floor PORT`; port 0 takes a free one.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AbstractContextManager
from typing import Any

import uvicorn
import uvloop

from benchmarks.listening import listening

Message = MutableMapping[str, Any]
_ANSWER = (
    b'{"messages":[{"message_id":"broker-a.1234567","queue_id":0,"queue_offset":308641,'
    b'"position":1234567,"store_time_ms":1790000000000}]}'
)
_HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_ANSWER))]


async def answer(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """Read the body, answer 200."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body", False):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    await send({"type": "http.response.body", "body": _ANSWER, "more_body": False})


def floor() -> AbstractContextManager[tuple[str, int]]:
    """A floor in a process of its own: its URL and its pid."""
    return listening("floor", "0")


def _serve(port: int) -> None:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(4096)
    config = uvicorn.Config(
        answer,
        http="httptools",
        ws="none",
        lifespan="off",
        loop="none",
        access_log=False,
        log_config=None,
        server_header=False,
        date_header=False,
        timeout_keep_alive=75,
    )
    print(f"floor: listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    uvloop.run(uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
