"""HTTP over a plain socket: requests are bytes made beforehand, so that the client costs little."""

from __future__ import annotations

import json
import re
import socket
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from lakemq.wire.tls import client_context

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_END_OF_HEAD = b"\r\n\r\n"
ARROW = "application/vnd.apache.arrow.stream"


class BadAnswer(Exception):
    """The server answered with an error, or with what is no answer."""


class Received(NamedTuple):
    """An answer. `body` is a view that the connection's next exchange overwrites."""

    status: int
    head: bytes
    body: memoryview

    def header(self, name: str) -> str:
        """A header's value; raises `BadAnswer` when there is none."""
        found = re.search(rb"\r\n%b: *([^\r]*)" % name.encode(), self.head, re.IGNORECASE)
        if found is None:
            raise BadAnswer(f"no header {name}")
        return found.group(1).decode()


def build(method: str, target: str, body: bytes = b"", **headers: str) -> bytes:
    """A request's bytes. Headers as `content_type="…"`."""
    lines = [f"{method} {target} HTTP/1.1", "Host: localhost"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    if body or method != "GET":
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


def address_of(url: str) -> tuple[str, int]:
    """Host and port of a URL."""
    parts = urlsplit(url)
    return parts.hostname or "127.0.0.1", parts.port or 80


def dial(url: str) -> socket.socket:
    """A connected socket."""
    connected = socket.create_connection(address_of(url), timeout=90)
    connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if url.startswith("https:"):
        return client_context(None).wrap_socket(connected, server_hostname=address_of(url)[0])
    return connected


def length_of(head: bytes | bytearray) -> int:
    """The length of the body that follows a head; raises `BadAnswer`."""
    found = _LENGTH.search(head)
    if found is None:
        raise BadAnswer(f"an answer without a length: {bytes(head[:200])!r}")
    return int(found.group(1))


class Connection:
    """One kept connection, one exchange at a time."""

    def __init__(self, url: str) -> None:
        self._socket = dial(url)
        self._buffer = bytearray(1 << 16)

    def exchange(self, request: bytes) -> Received:
        """Send a request, read its whole answer. Raises `BadAnswer` unless it is 2xx."""
        self._socket.sendall(request)
        head = self._socket.recv(1 << 16)
        while (end := head.find(_END_OF_HEAD)) < 0:
            piece = self._socket.recv(1 << 16)
            if not piece:
                raise BadAnswer(f"the connection ended after {head[:200]!r}")
            head += piece
        begun = head[end + len(_END_OF_HEAD) :]
        head = head[:end]
        body = self._read(begun, length_of(head))
        status = int(head[9:12])
        if status // 100 != 2:
            raise BadAnswer(f"{status}: {bytes(body[:300])!r}")
        return Received(status, head, body)

    def _read(self, begun: bytes, length: int) -> memoryview:
        if len(self._buffer) < length:
            self._buffer = bytearray(length)
        body = memoryview(self._buffer)[:length]
        body[: len(begun)] = begun
        size = len(begun)
        while size < length:
            count = self._socket.recv_into(body[size:])
            if count == 0:
                raise BadAnswer("the connection ended within a body")
            size += count
        return body

    def close(self) -> None:
        """Close it."""
        self._socket.close()


def ask(url: str, method: str, target: str, content: object = None, token: str = "") -> Any:
    """One exchange of JSON on a connection of its own; with that token, if there is one."""
    body = b"" if content is None else json.dumps(content).encode()
    connection = Connection(url)
    try:
        authorization = {"authorization": f"Bearer {token}"} if token else {}
        request = build(method, target, body, content_type="application/json", **authorization)
        return json.loads(bytes(connection.exchange(request).body))
    finally:
        connection.close()
