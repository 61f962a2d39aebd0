"""The one road from a connection to a handler: what the contract says of a request's route is seen to here, for all of
them. Hot routes have handlers of ASGI; all others are FastAPI's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from lakemq.contract.grammar import GRAMMAR
from lakemq.contract.route import Route
from lakemq.gateway.http.asgi import App, Disconnected, Receive, Scope, Send, bounded, send_answer
from lakemq.gateway.http.problems import Answer, answer_to, make_problem
from lakemq.gateway.http.request import Handler, HttpRequest, check_head, read_query

PATH_SHOWN_MAX = 200


class Front:
    """All routes: `handlers` answers some, `app` the others, whose bodies have at most so many bytes. `count` is told
    of each error by its code."""

    def __init__(
        self, app: App, handlers: Mapping[Route, Handler], bytes_max: int, count: Callable[[str], None]
    ) -> None:
        self._app = app
        self._handlers = handlers
        self._bytes_max = bytes_max
        self._count = count

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._serve(scope, receive, send)
        except Disconnected:
            return
        except asyncio.CancelledError:
            # A stop's grace is over, and this request's body is not whole yet.
            await send_answer(send, make_problem("busy", "the gateway has stopped"))

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        method, path = scope["method"], scope["path"]
        found = GRAMMAR.find(method, path)
        if found is None:
            await send_answer(send, self._closing(self._no_route(method, path), scope))
            return
        handler = self._handlers.get(found.route)
        try:
            check_head(found.route, scope["headers"])
            query = read_query(found.route, scope["query_string"])
            if handler is not None:
                await handler(HttpRequest(scope, receive, send, found.values, query))
                return
        except Disconnected:
            raise
        except Exception as error:  # noqa: BLE001  whatever it is, the client is answered
            await send_answer(send, self._closing(answer_to(error, self._count), scope))
            return
        # What FastAPI answers has small bodies, and it would read one of any size.
        await self._app(scope, bounded(receive, self._bytes_max), send)

    def _closing(self, answer: Answer, scope: Scope) -> Answer:
        """The refusal; the last one of its connection when its body, which nobody wants, may be large."""
        most = self._bytes_max
        for name, value in scope["headers"]:
            if name == b"transfer-encoding" or (name == b"content-length" and value.isdigit() and int(value) > most):
                return answer._replace(headers=[*answer.headers, (b"connection", b"close")])
        return answer

    def _no_route(self, method: str, path: str) -> Answer:
        shown = f"{method} {path[:PATH_SHOWN_MAX]}"
        methods = GRAMMAR.methods(path)
        code = "method_not_allowed" if methods else "not_found"
        self._count(code)
        if not methods:
            return make_problem(code, f"Not Found: {shown}")
        return make_problem(code, f"Method Not Allowed: {shown}", [(b"allow", ", ".join(methods).encode())])
