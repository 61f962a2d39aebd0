"""`PUT /v1/sinks/{sink}/batches/{batch}/parts/{part}`, past FastAPI: a part is as large as a request may be."""

from __future__ import annotations

from urllib.parse import unquote

import orjson

from lakemq.contract.forms import ARROW
from lakemq.gateway.access.caller import caller_of
from lakemq.gateway.decode import inflate
from lakemq.gateway.sinks.committer import Sinks
from lakemq.gateway.work.work import Work
from lakemq.model.errors import InvalidRequest, UnsupportedMediaType
from lakemq.web.asgi import Client, client_of, read_body, send_answer
from lakemq.web.meter import count_inflated
from lakemq.web.problems import json_answer
from lakemq.web.request import HttpRequest


class Stager:
    """Serves the parts of sinks."""

    def __init__(self, sinks: Sinks, work: Work) -> None:
        self._sinks = sinks
        self._work = work

    async def serve(self, request: HttpRequest) -> None:
        """Answer one part; raises `LakemqError` or `Disconnected`."""
        sink, batch, name = request.values
        if not batch.isascii() or not batch.isdigit() or len(batch) > 19:
            raise InvalidRequest(f"batch is a number, not {unquote(batch)[:100]!r}")
        query = request.query
        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in request.scope["headers"]}
        if headers.get("content-type", "").partition(";")[0].strip().lower() != ARROW:
            raise UnsupportedMediaType(f"a part is {ARROW}")
        client = client_of(request.scope)
        came = await read_body(request.receive, self._work.limits.request_bytes_max)
        body = await self._inflate(came, headers.get("content-encoding", ""), client)
        count_inflated(request.scope, len(came), len(body))
        decoding = self._work.decoding
        with decoding.holding(len(body), client):
            group = query.get("group")
            run = decoding.run_for(client)
            caller = caller_of(request.scope)
            part = await self._sinks.stage(sink, int(batch), name, query["topic"], group, body, run, caller)
        if part is not None:  # Arrow has compression of its own
            count_inflated(request.scope, max(len(came), len(body)), part.bytes)
        answer = {"staged": part is not None, "messages": 0 if part is None else part.messages}
        await send_answer(request.send, json_answer(orjson.dumps(answer)))

    async def _inflate(self, body: bytes, encoding: str, client: Client) -> bytes:
        decoding = self._work.decoding
        if not encoding:
            return body
        with decoding.holding(len(body), client):
            return await decoding.run_for(client)(inflate, encoding, body, self._work.limits.request_bytes_max)
