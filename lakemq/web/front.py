"""The one road from a connection to a handler: what the contract says of a request's route is seen to here, for all of
them. Hot routes have handlers of ASGI; all others are FastAPI's."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from types import MappingProxyType
from typing import Protocol

from lakemq.contract.grammar import Found, Grammar
from lakemq.contract.route import Route
from lakemq.web.asgi import App, Disconnected, Receive, Scope, Send, bounded, read_body, send_answer
from lakemq.web.durations import ROUTE, Durations
from lakemq.web.held_answer import ERRORS, HeldAnswer, Until
from lakemq.web.meter import METER, metered
from lakemq.web.problems import Answer, answer_to, identified, make_problem
from lakemq.web.request import Handler, HttpRequest, check_head, read_query
from lakemq.web.told import TOLD, Told
from lakemq.web.traced import RequestSpans

PATH_SHOWN_MAX = 200


class Admits(Protocol):
    """Who knows who asks, and what they may."""

    def admit(self, found: Found, scope: Scope) -> None:
        """Raise unless who asks may ask for what the path says."""
        ...

    def admit_query(self, route: Route, query: Mapping[str, str], scope: Scope) -> Awaitable[None] | None:
        """Raise unless who asks may ask for what the query says; or return what has to be waited for before it is
        served, which may raise too."""
        ...


class _Everybody:
    """Lets everybody in."""

    def admit(self, found: Found, scope: Scope) -> None:
        pass

    def admit_query(self, route: Route, query: Mapping[str, str], scope: Scope) -> None:
        return None


_EVERYBODY = _Everybody()


class Front:
    """All routes of a grammar: `handlers` answers some, `app` the others, whose bodies have at most so many bytes.
    `count` is told of each error by its code. Routes that are in `until` are answered when that is done.
    `checks`: what raises where a route can't be served now. `refused`: what refusals of other handlers wait for.
    `access`: who is let in. `durations` is told how long each took until it was answered, if it was.
    `spans`: has those of requests that are recorded."""

    def __init__(
        self,
        grammar: Grammar,
        handlers: Mapping[Route, Handler],
        app: App | None,
        bytes_max: int,
        count: Callable[[str], None],
        until: Mapping[Route, Until] = MappingProxyType({}),
        checks: Mapping[Route, Callable[[], None]] = MappingProxyType({}),
        refused: Mapping[Route, Until] = MappingProxyType({}),
        access: Admits = _EVERYBODY,
        durations: Durations | None = None,
        spans: RequestSpans | None = None,
    ) -> None:
        """Raises `NotImplementedError` where there is no `app` for a route that has no handler."""
        if app is None and (without := [route.path for route in grammar.routes if route not in handlers]):
            raise NotImplementedError(f"nothing serves {without}")
        self._grammar = grammar
        self._app = app
        self._handlers = handlers
        self._bytes_max = bytes_max
        self._count = count
        self._until = until
        self._checks = checks
        self._refused = refused
        self._access = access
        self._durations = Durations() if durations is None else durations
        self._spans = spans

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began_s, answering = perf_counter(), send
        traced = None if self._spans is None else self._spans.begin(scope)
        if TOLD.isEnabledFor(logging.DEBUG):
            send = Told(send, scope, self._grammar).send
        try:
            await self._serve(scope, receive, send)
        except Disconnected:
            return
        except asyncio.CancelledError:
            # A stop's grace is over, and this request's body is not whole yet.
            await send_answer(send, identified(make_problem("busy", "the server has stopped"), scope))
        finally:
            status = getattr(getattr(answering, "__self__", None), "status", 0)
            if status:
                route = scope.get(ROUTE) or scope["method"]
                self._durations.of(route, status).note(perf_counter() - began_s)
            if self._spans is not None and traced is not None:
                self._spans.end(traced, scope, status)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        method, path = scope["method"], scope["path"]
        found = self._grammar.find(method, path)
        if found is None:
            await send_answer(send, self._closing(identified(self._no_route(method, path), scope), scope))
            return
        scope[ROUTE] = found.route
        handler = self._handlers.get(found.route)
        query: Mapping[str, str] = {}
        try:
            self._access.admit(found, scope)
            if METER in scope:
                receive, send = metered(scope, receive, send)
            has_unread = check_head(found.route, scope["headers"])
            query = read_query(found.route, scope["query_string"])
            if (admitted := self._access.admit_query(found.route, query, scope)) is not None:
                await admitted
            if (check := self._checks.get(found.route)) is not None:
                check()
            if has_unread and handler is None:
                # What turns out to be no whole request is answered so, and must not have been carried out.
                await read_body(receive, self._bytes_max)
            if (until := self._until.get(found.route)) is not None:
                send = HeldAnswer(send, until, _fields(found, query), self._count, scope=scope).send
            if handler is not None:
                await handler(HttpRequest(scope, receive, send, found.values, query))
                return
        except Disconnected:
            raise
        except Exception as error:  # noqa: BLE001  whatever it is, the client is answered
            send = self._holding_refusals(found, query, send, scope)
            await send_answer(send, self._closing(answer_to(error, self._count, scope), scope))
            return
        send = self._holding_refusals(found, query, send, scope)
        assert self._app is not None
        # What FastAPI answers has small bodies, and it would read one of any size.
        await self._app(scope, bounded(receive, self._bytes_max), send)

    def _holding_refusals(self, found: Found, query: Mapping[str, str], send: Send, scope: Scope) -> Send:
        until = self._refused.get(found.route)
        if until is None:
            return send
        return HeldAnswer(send, until, _fields(found, query), self._count, ERRORS, scope).send

    def _closing(self, answer: Answer, scope: Scope) -> Answer:
        """The refusal; the last one of its connection when its body, which nobody wants, may be large."""
        most = self._bytes_max
        for name, value in scope["headers"]:
            if name == b"transfer-encoding" or (name == b"content-length" and value.isdigit() and int(value) > most):
                return answer._replace(headers=[*answer.headers, (b"connection", b"close")])
        return answer

    def _no_route(self, method: str, path: str) -> Answer:
        shown = f"{method} {path[:PATH_SHOWN_MAX]}"
        methods = self._grammar.methods(path)
        code = "method_not_allowed" if methods else "not_found"
        self._count(code)
        if not methods:
            return make_problem(code, f"Not Found: {shown}")
        return make_problem(code, f"Method Not Allowed: {shown}", [(b"allow", ", ".join(methods).encode())])


def _fields(found: Found, query: Mapping[str, str]) -> Mapping[str, str]:
    return {**query, **dict(zip(found.route.within, found.values, strict=True))}
