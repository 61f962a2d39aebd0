"""Routes of the contract that FastAPI answers: small bodies, checked by pydantic."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from fastapi import APIRouter

from lakemq.contract.route import Route

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])


def serves(router: APIRouter, route: Route, **options: Any) -> Callable[[Endpoint], Endpoint]:
    """Let a function be the endpoint of `route`; `options`: of FastAPI's own."""
    return router.api_route(route.path, methods=[route.method], summary=route.summary, tags=[route.tag], **options)
