"""Bytes of bodies, counted as they come and go, of requests whose user has a quota."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Protocol

from lakemq.web.asgi import Receive, Scope, Send, Whole
from lakemq.web.problems import Answer, Headers

METER = "lakemq.meter"
"""Where a request's scope has who counts; it has none where nobody does."""


class Meter(Protocol):
    """Counts."""

    def took(self, size: int) -> None:
        """So many bytes more have come, or gone."""
        ...


def body_bytes(headers: Headers) -> int | None:
    """How large the body is; None: that is seen as it comes."""
    size: int | None = 0
    for name, value in headers:
        if name == b"transfer-encoding":
            return None
        if name == b"content-length":  # the parser has found it to be a number
            size = int(value)
    return size


def count_inflated(scope: Scope, came: int, plain: int) -> None:
    """Of a body of `came` bytes there are `plain` without compression, its own or that of what it holds. Those count,
    not how they came; `came` is counted already."""
    meter: Meter | None = scope.get(METER)
    if meter is not None and plain > came:
        meter.took(plain - came)


class MeteredAnswer(Whole):
    """Takes the place of a request's `send`."""

    def __init__(self, send: Send, meter: Meter) -> None:
        self._send, self._meter = send, meter

    def answer_at_once(self, answer: Answer) -> bool:
        """As `Whole`."""
        sender = getattr(self._send, "__self__", None)
        if not isinstance(sender, Whole) or not sender.answer_at_once(answer):
            return False
        self._meter.took(len(answer.body))
        return True

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """ASGI's."""
        await self._send(message)
        if body := message.get("body"):
            self._meter.took(len(body))


class _MeteredBody:
    def __init__(self, receive: Receive, meter: Meter) -> None:
        self._receive, self._meter = receive, meter

    async def receive(self) -> MutableMapping[str, Any]:
        message = await self._receive()
        if body := message.get("body"):
            self._meter.took(len(body))
        return message


def metered(scope: Scope, receive: Receive, send: Send) -> tuple[Receive, Send]:
    """What takes the place of both. A body whose size was said is counted already."""
    meter: Meter = scope[METER]
    if body_bytes(scope["headers"]) is None:
        receive = _MeteredBody(receive, meter).receive
    return receive, MeteredAnswer(send, meter).send
