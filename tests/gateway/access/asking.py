"""Asking a gateway as one user or another."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx

from lakemq.contract.right import Right
from lakemq.contract.route import Reads, Route
from lakemq.contract.sql_routes import STATEMENT
from lakemq.model.access import Action, Kind
from lakemq.testing import GatewayProcess
from tests.gateway.http_client import TLS, WAIT_S

NAMES = {
    "topic": "orders",
    "group": "workers",
    "producer_group": "workers",
    "queue_id": "0",
    "message_id": "broker-a-0",
    "transaction_id": "broker-a-0-x",
    "half_id": "broker-a-0",
    "correlation_id": "none",
    "redrive_id": "broker-a-0",
    "client_id": "c",
    "sink": "s",
    "batch": "1",
    "part": "p",
    "token": "t",
    "user": "someone-else",
    "token_id": "0",
    "job": "stats",
    "broker": "b",
    "replica": "0",
}
"""What stands for each name in a path."""
BODIES: dict[Route, Any] = {STATEMENT: {"statement": "SELECT 1"}}
"""Without which a route isn't asked for anything."""


def token_of(data_dir: Path) -> str:
    """The administrator's."""
    return (data_dir / "admin.token").read_text("ascii").strip()


def ask_as(gateway: GatewayProcess, token: str = "") -> httpx.Client:
    """A client with that token; without one it is nobody."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return httpx.Client(base_url=gateway.url, timeout=WAIT_S, trust_env=False, verify=TLS, headers=headers)


def make_user(admin: httpx.Client, name: str, *policies: dict[str, Any], **fields: Any) -> str:
    """Make a user with these policies; its token."""
    made = admin.put(f"/v1/users/{name}", json=fields)
    assert made.status_code in (200, 201), made.text
    give(admin, name, policies)
    given = admin.post(f"/v1/users/{name}/tokens", json={})
    assert given.status_code == 201, given.text
    return given.json()["token"]


def give(admin: httpx.Client, name: str, policies: Iterable[dict[str, Any]]) -> None:
    """Let the user have these policies, and no others."""
    answer = admin.put(f"/v1/users/{name}/policies", json={"policies": list(policies)})
    assert answer.status_code == 200, answer.text


def allow(resource: str, *actions: str) -> dict[str, Any]:
    """A policy that allows."""
    return {"resource": resource, "actions": list(actions)}


def deny(resource: str, *actions: str) -> dict[str, Any]:
    """A policy that denies."""
    return {"resource": resource, "actions": list(actions), "decision": "deny"}


def request_of(route: Route) -> tuple[str, str, dict[str, Any]]:
    """A request for the route, which may be refused for what it asks, but not for how it is written."""
    path = "/".join(NAMES[each[1:-1]] if each.startswith("{") else each for each in route.path.split("/"))
    query = {each.name: NAMES.get(each.name) or (each.choices or ("0",))[0] for each in route.query if each.required}
    asked: dict[str, Any] = {"params": query}
    if route.reads is not Reads.NOTHING and route.method != "GET":
        asked |= {"content": json.dumps(BODIES.get(route, {})), "headers": {"Content-Type": "application/json"}}
    return route.method, path, asked


def resource_of(right: Right) -> str:
    """What the right is on, in that request."""
    return f"{right.kind}:{NAMES.get(right.of, '*') if right.of else '*'}"


def all_but(rights: Iterable[Right]) -> list[dict[str, Any]]:
    """Policies that allow everything but what these rights take."""
    taken: dict[Kind, set[Action]] = {}
    for right in rights:
        taken.setdefault(right.kind, set()).update(right.actions)
    left = {kind: [each.value for each in Action if each not in taken.get(kind, set())] for kind in Kind}
    return [allow(f"{kind}:*", *actions) for kind, actions in left.items() if actions]


# What the answer is to each who asks ---------------------------------------------------------

WRONG = (f"lmq_{'0' * 16}_{'0' * 64}", f"lmq_{'a' * 16}_{'b' * 64}", "lmq_", "nonsense")
LONG_AGO_MS = 1_000_000_000_000


def ask(client: httpx.Client, route: Route) -> httpx.Response:
    """The answer to a request for the route."""
    method, path, asked = request_of(route)
    return client.request(method, path, **asked)


def is_let_in(response: httpx.Response) -> bool:
    """Whether it was looked at what is asked for, whatever came of that."""
    code = "" if response.is_success else response.json()["code"]
    assert response.status_code < HTTPStatus.INTERNAL_SERVER_ERROR or code in ("busy", "store_unwritable")
    return code not in ("unauthenticated", "forbidden", "flow_control")


def wrong_authorizations(admin: httpx.Client, name: str, token: str) -> list[str]:
    """What lets nobody in, though it looks much like that user's: of no user, of one that has expired, with another
    secret, of another scheme."""
    expired = admin.post(f"/v1/users/{name}/tokens", json={"expires_ms": LONG_AGO_MS}).json()["token"]
    wrong_secret = token[:-64] + ("0" * 64)
    return [*(f"Bearer {each}" for each in (*WRONG, wrong_secret, expired)), "Basic YTpi"]


def enough_for(rights: Sequence[Right]) -> list[list[dict[str, Any]]]:
    """Policies that allow just these rights: for each action that is one of several a list of its own."""
    many = max(len(right.actions) for right in rights)
    return [
        [allow(resource_of(right), right.actions[number % len(right.actions)].value) for right in rights]
        for number in range(many)
    ]


def denied(rights: Sequence[Right]) -> list[dict[str, Any]]:
    """Policies that allow all of these rights, and deny the first."""
    everything = [allow(resource_of(right), *[each.value for each in right.actions]) for right in rights]
    return [*everything, deny(f"{rights[0].kind}:*", *[each.value for each in rights[0].actions])]
