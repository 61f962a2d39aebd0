"""What the routes of FastAPI take: query fields that they don't know, and bodies that aren't JSON, are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from fastapi.routing import APIRoute

from lakemq.gateway.http.asgi import check_json, check_names, parse_query


class Strictness:
    """The fields of each route's query, as the route itself declares them."""

    def __init__(self) -> None:
        self._fields: dict[Callable[..., Any], frozenset[str]] = {}

    def learn(self, router: APIRouter) -> None:
        """Take in a router's routes."""
        for route in router.routes:
            if isinstance(route, APIRoute):
                documented = (route.openapi_extra or {}).get("parameters", ())
                fields = {each["name"] for each in documented if each["in"] == "query"}
                self._fields[route.endpoint] = frozenset(
                    fields | {field.alias for field in route.dependant.query_params}
                )

    async def check(self, request: Request) -> None:
        """Raise `InvalidRequest` or `UnsupportedMediaType`."""
        scope = request.scope
        fields = self._fields.get(scope["endpoint"])
        if fields is None:
            return
        check_names(parse_query(scope["query_string"]), fields)
        route = scope["route"]
        if getattr(route, "body_field", None) is not None and _has_body(scope["headers"]):
            check_json(scope["headers"])


def _has_body(headers: list[tuple[bytes, bytes]]) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value.strip(b"0 ")) for name, value in headers
    )
