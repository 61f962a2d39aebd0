"""An answer that is held until what it says may be said."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from lakemq.web.asgi import Scope, Send, Whole, send_answer
from lakemq.web.problems import Answer, answer_to

Until = Callable[[Mapping[str, str]], asyncio.Future[None] | None]
"""What a request with that query, and these names in its path, waits for as it is answered; None: for nothing. An error
of it is the answer then."""

ERRORS = 400
_SAY_WHAT_IS = (403, 404, 409)
"""Of the errors, those that say what there is, what it allows, or what has happened before."""


class HeldAnswer(Whole):
    """Takes the place of a request's `send`; `count` is told the code of an error that is answered instead. `least`:
    what has a lower status isn't held."""

    def __init__(
        self,
        send: Send,
        until: Until,
        fields: Mapping[str, str],
        count: Callable[[str], None],
        least: int = 0,
        scope: Scope | None = None,
    ) -> None:
        self._scope = scope
        self._least = least
        self._send = send
        self._until = until
        self._fields = fields
        self._count = count
        self._asked = self._refused = False
        self._waits: asyncio.Future[None] | None = None

    def answer_at_once(self, answer: Answer) -> bool:
        """As `Whole`: only where there is nothing to wait for."""
        if self._awaited(answer.status) is not None:
            return False
        sender = getattr(self._send, "__self__", None)
        return isinstance(sender, Whole) and sender.answer_at_once(answer)

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """ASGI's."""
        if message["type"] == "http.response.start" and (waits := self._awaited(message["status"])) is not None:
            try:
                await waits
            except Exception as error:  # noqa: BLE001  whatever it is, the client is answered
                self._refused = True
                await send_answer(self._send, answer_to(error, self._count, self._scope))
        if not self._refused:
            await self._send(message)

    def _awaited(self, status: int) -> asyncio.Future[None] | None:
        """What the answer has to wait for: asked once, as it is there."""
        if not self._asked and self._least <= status and (status < ERRORS or status in _SAY_WHAT_IS):
            self._asked = True
            self._waits = self._until(self._fields)
        return self._waits
