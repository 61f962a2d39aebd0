"""`POST /v1/topics/{topic}/requests` and `POST /v1/replies/{correlation_id}`, past FastAPI: their bodies
are messages, of any form and size that messages have."""

from __future__ import annotations

import asyncio

import orjson

from lakemq.gateway.broker.broker import Broker
from lakemq.gateway.decode import Limits, decode_one, inflate
from lakemq.gateway.http.asgi import (
    Receive,
    Scope,
    Send,
    check_names,
    client_of,
    parse_int,
    parse_query,
    read_body,
    send_answer,
    until_gone,
)
from lakemq.gateway.http.problems import Answer
from lakemq.gateway.placement.bulk import is_large
from lakemq.gateway.produce.produce import JSON_HEADER
from lakemq.gateway.requests.requests import Requests
from lakemq.model.message import Draft
from lakemq.model.names import check_writable

TOPICS = "/v1/topics/"
SUFFIX = "/requests"
REPLIES = "/v1/replies/"
TIMEOUT_MS = 3_000


def is_request(method: str, path: str) -> bool:
    """Whether the request is one of those that are handled here."""
    if method != "POST":
        return False
    if path.startswith(REPLIES):
        return "/" not in path[len(REPLIES) :] and len(path) > len(REPLIES)
    return path.startswith(TOPICS) and path.endswith(SUFFIX) and "/" not in path[len(TOPICS) : -len(SUFFIX)]


class RequestHandler:
    """Serves requests and replies of one broker."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.requests = Requests(broker)

    async def serve(self, scope: Scope, receive: Receive, send: Send, path: str) -> None:
        """Answer one; raises `LakemqError` or `Disconnected`."""
        query = parse_query(scope["query_string"])
        if path.startswith(REPLIES):
            check_names(query, frozenset())
            message = await self.requests.reply(path[len(REPLIES) :], await self._decode(scope, receive))
        else:
            check_names(query, frozenset({"timeout_ms"}))
            topic = check_writable(path[len(TOPICS) : -len(SUFFIX)])
            timeout_ms = parse_int(query, "timeout_ms", TIMEOUT_MS, 1, self._broker.settings.gateway.wait_ms_max)
            # Who waits doesn't hold the message any more: there may be many.
            correlation_id = await self.requests.ask(topic, await self._decode(scope, receive), timeout_ms)
            gone = asyncio.ensure_future(until_gone(receive))
            try:
                message = await self.requests.wait(correlation_id, timeout_ms, gone)
            finally:
                gone.cancel()
        await send_answer(send, Answer(200, [JSON_HEADER], orjson.dumps(message)))

    async def _decode(self, scope: Scope, receive: Receive) -> Draft:
        broker = self._broker
        body = await read_body(receive, broker.limits.request_bytes_max)
        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        client = client_of(scope)
        with broker.decoding.holding(len(body), client):
            if not is_large(headers, body):
                return _decode_whole(headers, body, broker.limits)
            return await broker.decoding.run_for(client)(_decode_whole, headers, body, broker.limits)


def _decode_whole(headers: dict[str, str], body: bytes, limits: Limits) -> Draft:
    encoding = headers.get("content-encoding", "")
    plain = inflate(encoding, body, limits.request_bytes_max) if encoding else body
    return decode_one(headers.get("content-type", ""), headers, plain, limits)
