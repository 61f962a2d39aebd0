"""Spans of requests: of those that come with a trace that is recorded, and of a part of those that come without one."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from time import perf_counter
from typing import NamedTuple

from lakemq.contract import spans as names
from lakemq.contract.grammar import Grammar
from lakemq.contract.spans import Value
from lakemq.model.trace_parent import TraceParent, trace_parent_of
from lakemq.traces.span import MS, Span
from lakemq.traces.spans import Spans
from lakemq.web.asgi import Scope
from lakemq.web.request_id import given_id
from lakemq.web.shown_path import path_of

_PARENT, _STATE = b"traceparent", b"tracestate"
_PARTS = 1 << 32


class Begun(NamedTuple):
    """A request that is recorded: whose trace it is in; or how its own span is called, which begins one."""

    begun_s: float
    parent: TraceParent | None
    own: TraceParent | None


class RequestSpans:
    """Those of one server. `ratio`: the part of the requests without a trace that begin one: their messages get it, as
    those of others get the trace that they came with."""

    def __init__(self, spans: Spans, now_ms: Callable[[], int], ratio: float, grammar: Grammar) -> None:
        self._spans = spans
        self._now_ms = now_ms
        self._grammar = grammar
        self._below = int(ratio * _PARTS)
        self._owed = 0

    def choose(self) -> bool:
        """Whether a request that hasn't come here, and has no trace, is to be recorded: then it is to come here."""
        if self._draw():
            self._owed += 1
            return True
        return False

    def begin(self, scope: Scope) -> Begun | None:
        """What the request's span is, if it has one."""
        said = next((value for name, value in scope["headers"] if name == _PARENT), None)
        parent = None if said is None else trace_parent_of(said.decode("latin-1"))
        if parent is not None:
            return Begun(perf_counter(), parent, None) if parent.sampled else None
        if self._owed:
            self._owed -= 1
        elif not self._draw():
            return None
        own = TraceParent(secrets.token_hex(16), secrets.token_hex(8), sampled=True)
        others = [each for each in scope["headers"] if each[0] not in (_PARENT, _STATE)]
        scope["headers"] = [*others, (_PARENT, str(own).encode())]
        return Begun(perf_counter(), None, own)

    def end(self, begun: Begun, scope: Scope, status: int) -> None:
        """The request was answered; 0: it wasn't, as its client has gone."""
        took_ns = int((perf_counter() - begun.begun_s) * 1e9)
        end_ns = self._now_ms() * MS
        attributes, route = self._said(scope)
        error: str | None = None
        if status:
            attributes["http.response.status_code"] = status
        if status >= 500 or not status:
            attributes[names.ERROR], error = str(status) if status else "disconnected", ""
        name = f"{scope['method']} {route}" if route else scope["method"]
        self._spans.add(Span(name, "server", end_ns - took_ns, end_ns, attributes, begun.parent, begun.own, error))

    def _draw(self) -> bool:
        return bool(self._below) and secrets.randbelow(_PARTS) < self._below

    def _said(self, scope: Scope) -> tuple[dict[str, Value], str]:
        """What it says by OpenTelemetry's conventions for HTTP servers, without what may be secret, and its route."""
        method = scope["method"]
        said: dict[str, Value] = {"http.request.method": method, "url.scheme": scope.get("scheme") or "http"}
        client = scope.get("client")
        if client:
            said["client.address"] = client[0]
        if request_id := given_id(scope["headers"]):
            said["lakemq.request_id"] = request_id
        found = self._grammar.find(method, scope["path"])
        if found is None:
            return said, ""
        said |= {"http.route": found.route.path, "url.path": path_of(found)}
        within = dict(zip(found.route.within, found.values, strict=True))
        for name, attribute in (("topic", names.TOPIC), ("group", names.GROUP)):
            if name in within:
                said |= {"messaging.system": names.SYSTEM, attribute: within[name][:200]}
        return said, found.route.path
