"""The OpenAPI document: what FastAPI knows of its routes, and the contract of those that it doesn't answer."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from lakemq.contract import forms, routes
from lakemq.contract.route import Field, Reads, Route, is_name
from lakemq.gateway.receive.bodies import AcksBody, InvisibilityBody, ReceiveBody

_MESSAGES_EXAMPLE = {"messages": [{"body": "hello", "tag": "T", "keys": ["k1"], "properties": {"a": "b"}}]}
_EXAMPLES: dict[str, dict[str, Any]] = {
    forms.JSON: {"example": _MESSAGES_EXAMPLE},
    forms.NDJSON: {"example": '{"body": "hello"}'},
}
_MANY: dict[str, Any] = {form: _EXAMPLES.get(form, {}) for form in (*forms.FORMS, forms.OCTETS)}
_ONE: dict[str, Any] = {forms.JSON: {"example": {"body": "hello"}}, forms.EVENT: {}, forms.OCTETS: {}}
_NAMES = {
    routes.PRODUCE: "produce",
    routes.PULL: "pull",
    routes.BEGIN: "begin",
    routes.RESOLVE: "resolve",
    routes.REQUEST: "ask",
    routes.REPLY: "reply",
    routes.RECEIVE: "receive",
    routes.ACKS: "acknowledge",
    routes.INVISIBILITY: "change",
    routes.STAGE_PART: "stage",
    routes.LOG_FRAMES: "follow",
}
"""As FastAPI would take them from a function's name: programs are generated from these."""
_HEADERS: dict[Route, list[dict[str, Any]]] = {
    routes.PRODUCE: [{"name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "maxLength": 256}}],
    routes.BEGIN: [{"name": "Idempotency-Key", "in": "header", "schema": {"type": "string", "maxLength": 256}}],
}


def _json(body: type[BaseModel]) -> dict[str, Any]:
    return {forms.JSON: {"schema": body.model_json_schema()}}


_BODIES: dict[Route, dict[str, Any]] = {
    routes.PRODUCE: _MANY,
    routes.BEGIN: _MANY,
    routes.REQUEST: _ONE,
    routes.REPLY: _ONE,
    routes.RECEIVE: _json(ReceiveBody),
    routes.ACKS: _json(AcksBody),
    routes.INVISIBILITY: _json(InvisibilityBody),
    routes.RESOLVE: {forms.JSON: {"example": {"producer_group": "orders", "resolution": "commit"}}},
    routes.STAGE_PART: {forms.ARROW: {}},
}


def complete(document: dict[str, Any], others: Iterable[Route]) -> dict[str, Any]:
    """FastAPI's document with the routes that are not its own."""
    paths = {path: dict(operations) for path, operations in document["paths"].items()}
    for route in others:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {**document, "paths": dict(sorted(paths.items()))}


def _operation(route: Route) -> dict[str, Any]:
    named = [each[1:-1] for each in route.path.split("/") if is_name(each)]
    parameters = [
        *({"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in named),
        *(_parameter(each) for each in route.query),
        *_HEADERS.get(route, []),
    ]
    operation: dict[str, Any] = {
        "operationId": re.sub(r"\W", "_", f"{_NAMES[route]}{route.path}") + f"_{route.method.lower()}",
        "tags": [route.tag],
        "summary": route.summary,
        "parameters": parameters,
        "responses": {"200": {"description": "Successful Response"}},
    }
    content = _BODIES.get(route)
    if content is not None:
        operation["requestBody"] = {"required": True, "content": content}
    assert content is not None or route.reads is Reads.NOTHING, f"{route.path} reads a body that nobody describes"
    return operation


def _parameter(field: Field) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": field.kind}
    if field.choices:
        schema["enum"] = list(field.choices)
    if field.least is not None:
        schema["minimum"] = field.least
    if field.default is not None:
        schema["default"] = field.default
    return {
        "name": field.name,
        "in": "query",
        "required": field.required,
        "schema": schema,
        "description": field.description,
    }
