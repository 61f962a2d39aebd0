"""Every route whose right a handler finds, in a body or by an id: who has no right on what is asked for is refused, or
is shown none of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest

from lakemq.contract import client_routes, dead_letter_routes, find_routes, routes, schema_routes, waiting_routes
from lakemq.contract.route import Route
from lakemq.contract.sql_routes import OWN_ACCESS
from lakemq.testing import start_gateway
from tests.gateway.access.asking import ask_as, make_user, token_of
from tests.gateway.http_client import is_problem
from tests.gateway.routing.asking import begin

HOUR_MS = 3_600_000
OF_ANY_USER = {routes.BROKER, routes.LOG_POSITION, OWN_ACCESS}
BY_SECRET = {routes.REPLY}
"""Whoever has the id may, and nobody finds it."""
OF_OWN = {client_routes.DELETE_CLIENT}
"""`test_nobody_speaks_for_another_s_producer`."""
FOUND = {
    route
    for route in routes.ALL
    if not (route.rights.public or route.rights.each) and route not in OF_ANY_USER | BY_SECRET | OF_OWN
}


class Asked(NamedTuple):
    """A request. `listed`: where its answer has what one may see; empty: it is refused."""

    method: str
    path: str
    content: dict[str, Any] | None = None
    listed: str = ""

    def by(self, client: httpx.Client) -> httpx.Response:
        return client.request(self.method, self.path, json=self.content)


class Scene(NamedTuple):
    """What each of these routes is asked for, all of a topic and a group of others; a user who may nothing, and the
    administrator."""

    asked: dict[Route, Asked]
    nobody: httpx.Client
    admin: httpx.Client


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    data = tmp_path_factory.mktemp("handlers") / "data"
    options = {"auth__required": "true", "transactions__timeout_ms": HOUR_MS}
    with start_gateway(data, **options) as gateway, ask_as(gateway, token_of(data)) as admin:
        asked = _asked(admin)
        with ask_as(gateway, make_user(admin, "nobody")) as nobody:
            yield Scene(asked, nobody, admin)


def _asked(admin: httpx.Client) -> dict[Route, Asked]:
    stored, waits, recalled = [_stored(admin, delay_ms) for delay_ms in (None, HOUR_MS, HOUR_MS)]
    assert waits != recalled
    ended, with_others, _ = begin(admin, "theirs", "x", "y", "z")
    schema = {"schema": {"type": "object", "properties": {"id": {"type": "integer"}}}}
    admin.put("/v1/topics/theirs/schema", json=schema).raise_for_status()
    redrive = admin.post("/v1/groups/theirs/dead-letters/redrive", json={"dry_run": True}).json()["redrive_id"]
    commit = {"producer_group": "pg", "resolution": "commit"}
    others = {"producer_group": "pg", "resolutions": [{"transaction_id": with_others, "resolution": "commit"}]}
    return {
        routes.MESSAGE: Asked("GET", f"/v1/messages/{stored}"),
        find_routes.HISTORY: Asked("GET", f"/v1/messages/{stored}/history"),
        routes.RECALL: Asked("DELETE", f"/v1/messages/{recalled}"),
        routes.RESOLVE: Asked("POST", f"/v1/transactions/{ended}", commit),
        routes.RESOLVE_MANY: Asked("POST", "/v1/transactions", others),
        routes.PUT_TOPIC: Asked("PUT", "/v1/topics/new", {"queues": 1}),
        routes.LOG_END: Asked("GET", "/v1/log/end?topics=theirs"),
        routes.LOG_MESSAGES: Asked("GET", "/v1/log/messages?from=0&to=10&topics=theirs"),
        client_routes.PUT_CLIENT: Asked("PUT", "/v1/clients/c", {"producer_group": "theirs"}),
        dead_letter_routes.REDRIVEN: Asked("GET", f"/v1/redrives/{redrive}"),
        schema_routes.SCHEMAS: Asked("GET", "/v1/schemas", listed="schemas"),
        waiting_routes.SCHEDULED: Asked("GET", "/v1/scheduled", listed="messages"),
        waiting_routes.TRANSACTIONS: Asked("GET", "/v1/transactions", listed="transactions"),
    }


def _stored(admin: httpx.Client, delay_ms: int | None) -> str:
    message = {"body": "x"} | ({} if delay_ms is None else {"delay_ms": delay_ms})
    answer = admin.post("/v1/topics/theirs/messages", json={"messages": [message]})
    return answer.raise_for_status().json()["messages"][0]["message_id"]


def test_each_is_asked(scene: Scene) -> None:
    assert scene.asked.keys() == FOUND


@pytest.mark.parametrize("route", sorted(FOUND, key=str), ids=lambda route: f"{route.method} {route.path}")
def test_each_is_refused_or_shows_nothing_without_a_right_on_what_it_finds(scene: Scene, route: Route) -> None:
    asked = scene.asked[route]
    assert asked.method == route.method
    refused, taken = asked.by(scene.nobody), asked.by(scene.admin)
    assert taken.is_success, taken.text
    if route is routes.RESOLVE_MANY:  # each has a status of its own
        said = [answer.json()["results"][0]["status"] for answer in (refused, taken)]
        assert said == ["forbidden", "ok"]
    elif asked.listed:
        assert refused.json()[asked.listed] == []
        assert taken.json()[asked.listed] != []
    else:
        assert is_problem(refused, 403, "forbidden")
        assert "theirs" not in refused.json()["detail"] or "theirs" in f"{asked.path}{asked.content}"
