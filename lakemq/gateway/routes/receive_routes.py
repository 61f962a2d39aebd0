"""Routes of simple consumption. They only hand on to the handler that `front.py` calls: they are
reached by paths that the front doesn't recognize, and they document it in `/docs`."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from lakemq.gateway.http.asgi import Receive, Scope, Send
from lakemq.gateway.receive.bodies import AcksBody, InvisibilityBody, ReceiveBody
from lakemq.gateway.receive.serve import ACKS, INVISIBILITY, RECEIVE
from lakemq.gateway.routes.front import Front


class _Handled(Response):
    """A response that a handler of the front sends."""

    def __init__(self, front: Front, group: str, kind: str) -> None:
        super().__init__()
        self._front = front
        self._group = group
        self._kind = kind

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._front.receive(scope, receive, send, self._group, self._kind)


def _doc(body: type[BaseModel]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": body.model_json_schema()}}}}


def make_router(front: Front) -> APIRouter:
    """The routes of one broker."""
    router = APIRouter(prefix="/v1/groups/{group}", tags=["receive"])

    @router.post("/receive", openapi_extra=_doc(ReceiveBody), summary="Receive messages of any queue")
    async def receive(group: str, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        return _Handled(front, group, RECEIVE)

    @router.post("/acks", openapi_extra=_doc(AcksBody), summary="Acknowledge what was received")
    async def acknowledge(group: str, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        return _Handled(front, group, ACKS)

    @router.post("/invisibility", openapi_extra=_doc(InvisibilityBody), summary="Change how long a message is out")
    async def change(group: str, request: Request) -> Response:  # pyright: ignore[reportUnusedFunction]
        return _Handled(front, group, INVISIBILITY)

    return router
