"""`PUT /v1/sinks/{sink}/batches/{batch}/parts/{part}`, past FastAPI: a part is as large as a request may be."""

from __future__ import annotations

from urllib.parse import unquote

import orjson

from lakemq.gateway.broker.broker import Broker
from lakemq.gateway.decode import inflate
from lakemq.gateway.http.asgi import Receive, Scope, Send, check_names, client_of, parse_query, read_body, send_answer
from lakemq.gateway.http.problems import Answer
from lakemq.gateway.placement.bulk import ARROW_TYPE
from lakemq.gateway.produce.produce import JSON_HEADER
from lakemq.gateway.work.gate import Client
from lakemq.model.errors import InvalidRequest, UnsupportedMediaType

_PREFIX = "/v1/sinks/"
_PARTS = 5
_QUERY = frozenset({"topic", "group"})


def is_part(method: str, path: str) -> bool:
    """Whether the request is one of those that are handled here."""
    return method == "PUT" and path.startswith(_PREFIX) and _split(path) is not None


def _split(path: str) -> tuple[str, str, str] | None:
    parts = path[len(_PREFIX) :].split("/")
    if len(parts) == _PARTS and parts[1] == "batches" and parts[3] == "parts":
        return parts[0], parts[2], parts[4]
    return None


class Stager:
    """Serves the parts of one broker's sinks."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def serve(self, scope: Scope, receive: Receive, send: Send, path: str) -> None:
        """Answer one part; raises `LakemqError` or `Disconnected`."""
        found = _split(path)
        assert found is not None
        sink, batch, name = found
        if not batch.isascii() or not batch.isdigit() or len(batch) > 19:
            raise InvalidRequest(f"batch is a number, not {unquote(batch)[:100]!r}")
        query = parse_query(scope["query_string"])
        check_names(query, _QUERY)
        if "topic" not in query:
            raise InvalidRequest("the query lacks 'topic'")
        headers = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        if headers.get("content-type", "").partition(";")[0].strip().lower() != ARROW_TYPE:
            raise UnsupportedMediaType(f"a part is {ARROW_TYPE}")
        client = client_of(scope)
        body = await self._body(receive, headers.get("content-encoding", ""), client)
        broker = self._broker
        with broker.decoding.holding(len(body), client):
            group = query.get("group")
            run = broker.decoding.run_for(client)
            part = await broker.sinks.stage(sink, int(batch), name, query["topic"], group, body, run)
        answer = {"staged": part is not None, "messages": 0 if part is None else part.messages}
        await send_answer(send, Answer(200, [JSON_HEADER], orjson.dumps(answer)))

    async def _body(self, receive: Receive, encoding: str, client: Client) -> bytes:
        broker = self._broker
        bytes_max = broker.limits.request_bytes_max
        body = await read_body(receive, bytes_max)
        if not encoding:
            return body
        with broker.decoding.holding(len(body), client):
            return await broker.decoding.run_for(client)(inflate, encoding, body, bytes_max)
