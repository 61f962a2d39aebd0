"""Long lists in bodies that FastAPI checks: their items are checked some at a time, so that others go on in between.
FastAPI takes all of a body at once, and 10,000 items held up everybody for 25 ms."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple, cast, get_args, get_origin

import orjson
from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic import BaseModel, TypeAdapter, ValidationError

from lakemq.gateway.http.in_slices import Pause

AT_ONCE = 200
LONG_BYTES = 16 * 1024
"""Shorter bodies are left to FastAPI."""


class Check(NamedTuple):
    """How items of a list are checked: makes models of some, raises `ValidationError`; and how many there may be."""

    check: Callable[[list[object]], list[object]]
    items_max: int


class LongBodyRoute(APIRoute):
    """A route whose body may have long lists of models."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """What answers, as FastAPI does but for the checks of long lists."""
        handle = super().get_route_handler()
        checks = {} if self.body_field is None else _checks_of(self.body_field.field_info.annotation)
        if not checks:
            return handle

        async def in_slices(request: Request) -> Response:
            return await handle(_LongBody(request, checks))

        return in_slices


def _checks_of(body: object) -> dict[str, Check]:
    """By field, how to check items of the body's lists of models."""
    fields = body.model_fields if isinstance(body, type) and issubclass(body, BaseModel) else {}
    items = {name: get_args(field.annotation) for name, field in fields.items() if get_origin(field.annotation) is list}
    return {
        name: Check(
            TypeAdapter(list[kind]).validate_python,  # pyright: ignore[reportInvalidTypeForm]
            next((each.max_length for each in fields[name].metadata if hasattr(each, "max_length")), sys.maxsize),
        )
        for name, (kind,) in items.items()
        if isinstance(kind, type) and issubclass(kind, BaseModel)
    }


class _LongBody(Request):
    """A request whose `json` has models in place of what was checked already: pydantic takes them as they are."""

    def __init__(self, request: Request, checks: dict[str, Check]) -> None:
        super().__init__(request.scope, request.receive)
        self._checks = checks

    async def json(self) -> Any:
        """The body's value; raises `json.JSONDecodeError`."""
        body = await self.body()
        if len(body) < LONG_BYTES:
            return await super().json()
        try:
            content = orjson.loads(body)
        except orjson.JSONDecodeError:
            return await super().json()  # it may take more, and says what is wrong
        if isinstance(content, dict):
            fields = cast("dict[str, object]", content)
            for name, check in self._checks.items():
                if isinstance(items := fields.get(name), list):
                    fields[name] = await _checked(cast("list[object]", items), check)
        return content


async def _checked(items: list[object], check: Check) -> list[object]:
    """The items as models; where some are none, FastAPI is left to say so of the first of these, and the others are
    not looked at. Nor are those that are too many, of which it says only that."""
    most = min(len(items), check.items_max)
    pause, checked = Pause(), list[object]()
    for begin in range(0, most, AT_ONCE):
        some = items[begin : min(begin + AT_ONCE, most)]
        try:
            checked += check.check(some)
        except ValidationError:
            return [*checked, *(some if most == len(items) else items[begin:])]
        await pause()
    return [*checked, *items[most:]]
