"""`POST /v1/topics/{topic}/requests` and `POST /v1/replies/{correlation_id}`, past FastAPI: their bodies
are messages, of any form and size that messages have."""

from __future__ import annotations

import orjson

from lakemq.contract.routes import REPLY_TIMEOUT_MS
from lakemq.gateway.access.caller import caller_of
from lakemq.gateway.decode import Limits, decode_one, inflate
from lakemq.gateway.placement.bulk import is_large
from lakemq.gateway.requests.requests import Requests
from lakemq.gateway.work.work import Work
from lakemq.model.message import Draft
from lakemq.model.names import check_writable
from lakemq.web.asgi import client_of, parse_int, read_body, send_answer
from lakemq.web.gone import client_gone
from lakemq.web.meter import count_inflated
from lakemq.web.problems import json_answer
from lakemq.web.request import HttpRequest


class RequestHandler:
    """Serves requests and replies."""

    def __init__(self, requests: Requests, work: Work) -> None:
        self._requests = requests
        self._work = work
        self._limits = Limits.of(work.limits)

    async def serve_request(self, request: HttpRequest) -> None:
        """Answer a request when its reply has come; raises `LakemqError` or `Disconnected`."""
        topic = check_writable(request.values[0])
        most_ms = self._work.limits.wait_ms_max
        timeout_ms = parse_int(request.query, REPLY_TIMEOUT_MS, most_ms)
        # Who waits doesn't hold the message any more: there may be many.
        client = client_of(request.scope)
        draft, caller = await self._decode(request), caller_of(request.scope)
        correlation_id = await self._requests.ask(topic, draft, timeout_ms, client, caller)
        del draft
        reply = await self._requests.wait(correlation_id, timeout_ms, client_gone(request.scope))
        await send_answer(request.send, json_answer(orjson.dumps(reply)))

    async def serve_reply(self, request: HttpRequest) -> None:
        """Answer a reply; raises `LakemqError` or `Disconnected`."""
        (correlation_id,) = request.values
        stored = await self._requests.reply(correlation_id, await self._decode(request))
        await send_answer(request.send, json_answer(orjson.dumps(stored)))

    async def _decode(self, request: HttpRequest) -> Draft:
        limits, decoding = self._limits, self._work.decoding
        body = await read_body(request.receive, limits.request_bytes_max)
        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in request.scope["headers"]}
        client = client_of(request.scope)
        with decoding.holding(len(body), client):
            if not is_large(headers, body):
                draft, size = _decode_whole(headers, body, limits)
            else:
                draft, size = await decoding.run_for(client)(_decode_whole, headers, body, limits)
        count_inflated(request.scope, len(body), size)
        return draft


def _decode_whole(headers: dict[str, str], body: bytes, limits: Limits) -> tuple[Draft, int]:
    """The message, and how many bytes the body has without compression."""
    encoding = headers.get("content-encoding", "")
    plain = inflate(encoding, body, limits.request_bytes_max) if encoding else body
    return decode_one(headers.get("content-type", ""), headers, plain, limits), len(plain)
