"""`POST /v1/transactions/{transaction_id}`: how a transaction ends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import orjson

from lakemq.gateway.access.caller import Caller, caller_of
from lakemq.model.errors import InvalidRequest
from lakemq.model.names import check_group
from lakemq.web.asgi import read_body, send_answer
from lakemq.web.problems import json_answer
from lakemq.web.request import HttpRequest

BODY_BYTES_MAX = 64 * 1024
_FIELDS = {"producer_group", "resolution"}


class Transactor:
    """Resolves transactions: `resolve` one by id, group, resolution, and who asks."""

    def __init__(self, resolve: Callable[[str, str, str, Caller], Awaitable[None]]) -> None:
        self._resolve = resolve

    async def serve(self, request: HttpRequest) -> None:
        """Answer one request; raises `LakemqError` or `Disconnected`."""
        (transaction_id,) = request.values
        group, resolution = parse_resolution(await read_body(request.receive, BODY_BYTES_MAX))
        await self._resolve(transaction_id, group, resolution, caller_of(request.scope))
        content = {"transaction_id": transaction_id, "resolution": resolution}
        await send_answer(request.send, json_answer(orjson.dumps(content)))


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
