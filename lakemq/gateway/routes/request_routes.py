"""Routes of requests and replies. They only hand on to the handler that `front.py` calls: they are
reached by paths that the front doesn't recognize, and they document it in `/docs`."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from lakemq.gateway.http.delegated import Delegated
from lakemq.gateway.requests.request_handler import TIMEOUT_MS
from lakemq.gateway.routes.front import Front

_MESSAGE_DOC: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"example": {"body": "hello"}},
            "application/cloudevents+json": {},
            "application/octet-stream": {},
        },
    }
}
_TIMEOUT_DOC = {
    "name": "timeout_ms",
    "in": "query",
    "schema": {"type": "integer", "default": TIMEOUT_MS, "minimum": 1},
    "description": "how long to wait for the reply",
}


def make_router(front: Front) -> APIRouter:
    """The routes of one broker."""
    router = APIRouter(prefix="/v1", tags=["requests"])

    @router.post(
        "/topics/{topic}/requests",
        openapi_extra={**_MESSAGE_DOC, "parameters": [_TIMEOUT_DOC]},
        summary="Send a message and wait for the reply",
    )
    async def ask(topic: str, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        return Delegated(front.request, request.scope["path"])

    @router.post("/replies/{correlation_id}", openapi_extra=_MESSAGE_DOC, summary="Reply to a request")
    async def reply(correlation_id: str, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        return Delegated(front.request, request.scope["path"])

    return router
