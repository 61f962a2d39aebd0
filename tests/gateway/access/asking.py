"""Asking a gateway as one user or another."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx

from lakemq.contract.right import Right
from lakemq.contract.route import Reads, Route
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
}
"""What stands for each name in a path."""


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
        asked |= {"content": json.dumps({}), "headers": {"Content-Type": "application/json"}}
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
