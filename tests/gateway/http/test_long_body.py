"""Long lists in bodies: their items are checked some at a time, and what is wrong is said as of short ones."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from fastapi import APIRouter, FastAPI, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field, field_validator

from lakemq.gateway.http import in_slices, long_body
from lakemq.gateway.http.long_body import LongBodyRoute
from tests.gateway.http_client import JSON

rounds: list[int] = []
"""How often others had their turn, as each item was checked."""
turns = 0


class Item(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    name: str
    number: int

    @field_validator("number")
    @classmethod
    def note(cls, number: int) -> int:
        rounds.append(turns)
        return number


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    title: str
    items: list[Item] = Field(max_length=3_000)


def make_app(route_class: Any) -> FastAPI:
    app, router = FastAPI(), APIRouter(route_class=route_class)

    @router.post("/items")
    async def post(request: Request, body: Body) -> dict[str, Any]:  # pyright: ignore[reportUnusedFunction]
        return {"title": body.title, "sum": sum(each.number for each in body.items)}

    app.include_router(router)
    return app


def ask(app: FastAPI, body: bytes) -> tuple[int, Any]:
    return asyncio.run(_ask(app, body))


async def _ask(app: FastAPI, body: bytes) -> tuple[int, Any]:
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    async def go_on() -> None:
        global turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    scope = {"type": "http", "method": "POST", "path": "/items", "raw_path": b"/items", "query_string": b""}
    scope |= {"headers": [(b"content-type", JSON.encode())], "root_path": "", "http_version": "1.1"}
    rounds.clear()
    others = asyncio.create_task(go_on())
    await app(scope, receive, send)
    others.cancel()
    return sent[0]["status"], json.loads(sent[1]["body"])


def long(count: int = 2_000, **more: Any) -> dict[str, Any]:
    return {"title": "t", "items": [{"name": "a" * 10, "number": number} for number in range(count)], **more}


def test_others_go_on_while_items_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_slices, "SLICE_S", 0.0)
    answer = ask(make_app(LongBodyRoute), json.dumps(long()).encode())
    assert answer == (200, {"title": "t", "sum": sum(range(2_000))})
    assert len(rounds) == 2_000  # none is checked twice
    assert len(set(rounds)) >= 2_000 // long_body.AT_ONCE - 1


def test_of_too_many_items_no_more_are_checked_than_there_may_be() -> None:
    status, found = ask(make_app(LongBodyRoute), json.dumps(long(100_000)).encode())
    assert (status, found["detail"][0]["type"]) == (422, "too_long")
    assert len(rounds) <= 3_001


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(long(5)),
        json.dumps(long(3_001)),
        json.dumps(long(more=1)),
        json.dumps(long(title=1)),
        json.dumps(long() | {"items": "none" * 10_000}),
        json.dumps(long()["items"]),
        json.dumps({"title": "t", "items": [*long()["items"], {"name": "b", "number": "1"}, *long(500)["items"]]}),
        json.dumps({"title": "t", "items": [*long()["items"], 1]}),
        json.dumps({"title": "t", "items": [1, *long(3_001)["items"]]}),
        json.dumps({"title": "t", "items": [*long(3_000)["items"], 1]}),
        json.dumps(long())[:-1],
    ],
)
def test_a_long_body_is_answered_as_by_fastapi(body: str) -> None:
    """Of what is wrong the first thing, which is all that is told."""
    status, found = ask(make_app(LongBodyRoute), body.encode())
    expected, by_fastapi = ask(make_app(APIRoute), body.encode())
    assert status == expected
    if status != 200:
        assert found["detail"][0] == by_fastapi["detail"][0]
