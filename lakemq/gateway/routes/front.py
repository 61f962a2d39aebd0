"""The ASGI function before the application: the two hot paths go straight to their handlers.

The same handlers stand behind FastAPI's routes for paths that need decoding; everything else is
FastAPI's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from lakemq.gateway.broker.broker import Broker
from lakemq.gateway.http.asgi import App, Disconnected, Receive, Scope, Send, bounded, check_headers, send_answer
from lakemq.gateway.http.problems import answer_to, make_problem
from lakemq.gateway.produce import transact
from lakemq.gateway.produce.produce import Producer
from lakemq.gateway.produce.sink_parts import Stager, is_part
from lakemq.gateway.produce.transact import Transactor, is_transact
from lakemq.gateway.pull.pull import Puller
from lakemq.gateway.receive import serve
from lakemq.gateway.requests import request_handler
from lakemq.gateway.requests.request_handler import REPLIES, RequestHandler, is_request
from lakemq.model.errors import InvalidRequest

_PREFIX = "/v1/topics/"
_SUFFIX = "/messages"
_BRING_MESSAGES = (_SUFFIX, transact.SUFFIX, request_handler.SUFFIX)


class Front:
    """`app`, with the hot paths taken out."""

    def __init__(self, app: App, broker: Broker) -> None:
        self._app = app
        self.broker = broker
        self.producer = Producer(broker)
        self.puller = Puller(broker)
        self.receives = serve.Server(broker)
        self.requests = RequestHandler(broker)
        self.transactor = Transactor(broker, self.producer)
        self.stager = Stager(broker)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._look(scope, receive, send)
        except asyncio.CancelledError:
            # A stop's grace is over, and this request's body is not whole yet.
            await send_answer(send, make_problem("busy", "the gateway has stopped"))

    async def _look(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        method, path = scope["method"], scope["path"]
        if not _brings_messages(method, path):
            try:
                check_headers(scope["headers"])
            except InvalidRequest as error:
                await self._refuse(error, send)
                return
        await self._route(method, path, scope, receive, send)

    async def _route(self, method: str, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        if path.startswith(_PREFIX) and path.endswith(_SUFFIX):
            middle = path[len(_PREFIX) : -len(_SUFFIX)]
            if method == "POST" and "/" not in middle:
                await self.produce(scope, receive, send, middle)
                return
            topic, queues, queue_id = _split(middle)
            if method == "GET" and queues:
                await self.pull(scope, receive, send, topic, queue_id)
                return
        if is_transact(method, path):
            await self.transact(scope, receive, send, path)
            return
        if is_request(method, path):
            await self.request(scope, receive, send, path)
            return
        if place := serve.place_of(method, path):
            await self.receive(scope, receive, send, *place)
            return
        if is_part(method, path):
            await self.stage(scope, receive, send, path)
            return
        # What FastAPI answers has small bodies, and it would read one of any size.
        await self._app(scope, bounded(receive, self.broker.limits.message_bytes_max), send)

    async def produce(self, scope: Scope, receive: Receive, send: Send, topic: str) -> None:
        """Answer a produce request, its errors too."""
        await self._see_through(self.producer.serve(scope, receive, send, topic), send)

    async def pull(self, scope: Scope, receive: Receive, send: Send, topic: str, queue_id: str) -> None:
        """Answer a pull, its errors too."""
        await self._see_through(self.puller.serve(scope, receive, send, topic, queue_id), send)

    async def transact(self, scope: Scope, receive: Receive, send: Send, path: str) -> None:
        """Answer a half or a resolution, its errors too."""
        await self._see_through(self.transactor.serve(scope, receive, send, path), send)

    async def request(self, scope: Scope, receive: Receive, send: Send, path: str) -> None:
        """Answer a request when its reply has come, or a reply; their errors too."""
        await self._see_through(self.requests.serve(scope, receive, send, path), send)

    async def receive(self, scope: Scope, receive: Receive, send: Send, group: str, kind: str) -> None:
        """Answer a receive or what is said about its receipts, errors too."""
        await self._see_through(self.receives.serve(scope, receive, send, group, kind), send)

    async def stage(self, scope: Scope, receive: Receive, send: Send, path: str) -> None:
        """Answer a part that is to be staged, its errors too."""
        await self._see_through(self.stager.serve(scope, receive, send, path), send)

    async def _see_through(self, serving: Awaitable[None], send: Send) -> None:
        try:
            await serving
        except Disconnected:
            return
        except Exception as error:  # noqa: BLE001  whatever it is, the client is answered
            await self._refuse(error, send)

    async def _refuse(self, error: Exception, send: Send) -> None:
        await send_answer(send, answer_to(error, self.broker.counters.problem))


def _brings_messages(method: str, path: str) -> bool:
    """Whether headers `Lakemq-…` are fields of a message, which its decoder checks: elsewhere they mean nothing."""
    return method == "POST" and (
        (path.startswith(_PREFIX) and path.endswith(_BRING_MESSAGES)) or path.startswith(REPLIES)
    )


def _split(middle: str) -> tuple[str, bool, str]:
    parts = middle.split("/")
    if len(parts) == 3 and parts[1] == "queues":
        return parts[0], True, parts[2]
    return "", False, ""
