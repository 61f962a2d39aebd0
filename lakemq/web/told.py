"""A request as the log tells of it where that is asked for: never its query, its headers or its body, nor what of its
path may be secret."""

from __future__ import annotations

import logging
import time
from collections.abc import MutableMapping
from typing import Any

from lakemq.contract.grammar import Grammar
from lakemq.web.asgi import Scope, Send
from lakemq.web.request_id import about
from lakemq.web.shown_path import path_of

TOLD = logging.getLogger(__name__)
"""Its level says whether requests are told of."""


class Told:
    """Takes the place of a request's `send`."""

    def __init__(self, send: Send, scope: Scope, grammar: Grammar) -> None:
        self._send, self._scope, self._grammar = send, scope, grammar
        self._begun_s = time.monotonic()

    async def send(self, message: MutableMapping[str, Any]) -> None:
        """ASGI's."""
        if message["type"] == "http.response.start":
            scope, took_ms = self._scope, (time.monotonic() - self._begun_s) * 1000
            shown = scope["method"], _path_of(scope, self._grammar), message["status"], took_ms
            TOLD.debug("%s %s: %d after %.1f ms", *shown, extra=about(scope))
        await self._send(message)


def _path_of(scope: Scope, grammar: Grammar) -> str:
    found = grammar.find(scope["method"], scope["path"])
    return "(no route)" if found is None else path_of(found)
