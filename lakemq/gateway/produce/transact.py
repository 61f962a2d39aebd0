"""Transactions by single requests, past FastAPI: a half, and its resolution."""

from __future__ import annotations

import orjson

from lakemq.gateway.broker.broker import Broker
from lakemq.gateway.http.asgi import (
    Receive,
    Scope,
    Send,
    check_json,
    check_names,
    parse_query,
    read_body,
    send_answer,
)
from lakemq.gateway.http.problems import Answer
from lakemq.gateway.produce.produce import JSON_HEADER, Producer
from lakemq.model.errors import InvalidRequest
from lakemq.model.names import check_group

TOPICS = "/v1/topics/"
SUFFIX = "/transactions"
RESOLVE = "/v1/transactions/"
BODY_BYTES_MAX = 64 * 1024
_ACKS = ("async", "sync")
_FIELDS = {"producer_group", "resolution"}


def is_transact(method: str, path: str) -> bool:
    """Whether the request is one of those that are handled here."""
    if method != "POST":
        return False
    if path.startswith(RESOLVE):
        return "/" not in path[len(RESOLVE) :] and len(path) > len(RESOLVE)
    return path.startswith(TOPICS) and path.endswith(SUFFIX) and "/" not in path[len(TOPICS) : -len(SUFFIX)]


class Transactor:
    """Serves the transaction requests of one broker."""

    def __init__(self, broker: Broker, producer: Producer) -> None:
        self._broker = broker
        self._producer = producer
        self._transactions = broker.router.transactions

    async def serve(self, scope: Scope, receive: Receive, send: Send, path: str) -> None:
        """Answer one request; raises `LakemqError` or `Disconnected`."""
        if path.startswith(RESOLVE):
            await self._resolve(scope, receive, send, path[len(RESOLVE) :])
        else:
            await self._producer.serve_halves(scope, receive, send, path[len(TOPICS) : -len(SUFFIX)])

    async def _resolve(self, scope: Scope, receive: Receive, send: Send, transaction_id: str) -> None:
        query = parse_query(scope["query_string"])
        check_names(query, frozenset({"ack"}))
        check_json(scope["headers"])
        ack = query.get("ack", "async")
        if ack not in _ACKS:
            raise InvalidRequest(f"ack is one of {', '.join(_ACKS)}, not {ack[:100]!r}")
        broker = self._broker
        body = await read_body(receive, BODY_BYTES_MAX)
        group, resolution = parse_resolution(body)
        await self._transactions.resolve(transaction_id, group, resolution)
        await broker.keep_promise(sync=ack == "sync")
        content = {"transaction_id": transaction_id, "resolution": resolution}
        await send_answer(send, Answer(200, [JSON_HEADER], orjson.dumps(content)))


def parse_resolution(body: bytes) -> tuple[str, str]:
    """Group and resolution; raises `InvalidRequest`."""
    try:
        fields = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"the body is no JSON: {error}") from None
    if not isinstance(fields, dict) or fields.keys() != _FIELDS:
        raise InvalidRequest("the body is an object with just producer_group and resolution")
    group, resolution = fields["producer_group"], fields["resolution"]
    if not isinstance(group, str) or not isinstance(resolution, str):
        raise InvalidRequest("producer_group and resolution are strings")
    return check_group(group), resolution
