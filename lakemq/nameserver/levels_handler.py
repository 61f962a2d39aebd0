"""What a name server's process writes to its log: shown, and changed while it runs."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import orjson

from lakemq.logs import LEVELS
from lakemq.logs.levels import NAMES_MAX
from lakemq.model.errors import InvalidRequest
from lakemq.web.asgi import read_body, send_answer
from lakemq.web.problems import json_answer
from lakemq.web.request import HttpRequest

BODY_BYTES_MAX = 32 * 1024


class LevelsHandler:
    """That of one process."""

    async def show(self, request: HttpRequest) -> None:
        """Answers one request."""
        await send_answer(request.send, json_answer(orjson.dumps(LEVELS.describe())))

    async def put(self, request: HttpRequest) -> None:
        """Answers one request. Raises `InvalidRequest`, `MessageTooLarge`."""
        levels, for_ms = _parse(await read_body(request.receive, BODY_BYTES_MAX))
        LEVELS.change(levels, for_ms)
        if for_ms is not None:
            asyncio.get_running_loop().call_later(for_ms / 1000 + 0.001, LEVELS.expire)
        await self.show(request)


def _parse(body: bytes) -> tuple[dict[str, str | None], int | None]:
    try:
        content = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"the body is no JSON: {error}") from None
    if not isinstance(content, dict) or not content.keys() <= {"levels", "for_ms"}:
        raise InvalidRequest('the body is {"levels": {"lakemq": "DEBUG"}, "for_ms": 600000}')
    said = cast("dict[str, Any]", content)
    levels, for_ms = said.get("levels"), said.get("for_ms")
    if not isinstance(levels, dict) or len(cast("dict[str, Any]", levels)) > NAMES_MAX:
        raise InvalidRequest(f"levels is an object with at most {NAMES_MAX} loggers")
    given = cast("dict[str, Any]", levels)
    if any(each is not None and not isinstance(each, str) for each in given.values()):
        raise InvalidRequest("a level is a name, or null")
    if for_ms is not None and (not isinstance(for_ms, int) or isinstance(for_ms, bool)):
        raise InvalidRequest("for_ms is an integer")
    return given, for_ms
