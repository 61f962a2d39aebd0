"""Every route of the contract, asked by all who may not, and by who may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import httpx
import pytest

from lakemq.contract import routes
from lakemq.contract.route import Route
from lakemq.contract.sql_routes import OWN_ACCESS
from lakemq.testing import GatewayProcess, start_gateway
from tests.docs.rights import OF_GATEWAY
from tests.gateway.access.asking import (
    LONG_AGO_MS,
    NAMES,
    all_but,
    ask,
    ask_as,
    denied,
    enough_for,
    give,
    is_let_in,
    make_user,
    request_of,
    resource_of,
    token_of,
    wrong_authorizations,
)
from tests.gateway.http_client import TLS, WAIT_S, is_problem

ASKED = [route for route in OF_GATEWAY if not route.rights.public]
WITH_RIGHTS = [route for route in ASKED if route.rights.each]
BY_USERS = [route for route in WITH_RIGHTS if all(right.actions for right in route.rights.each)]
FOR_SUPER_USERS = [route for route in WITH_RIGHTS if route not in BY_USERS]


class Scene(NamedTuple):
    """A gateway that asks everybody who he is, its administrator, and a user whose policies each test sets."""

    gateway: GatewayProcess
    admin: httpx.Client
    user: httpx.Client


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    data = tmp_path_factory.mktemp("access") / "data"
    with start_gateway(data, auth__required="true") as gateway, ask_as(gateway, token_of(data)) as admin:
        assert admin.put("/v1/topics/orders", json={"queues": 1}).status_code == 201
        with ask_as(gateway, make_user(admin, "somebody")) as user:
            yield Scene(gateway, admin, user)


def test_nobody_is_let_in_without_a_token(scene: Scene) -> None:
    with ask_as(scene.gateway) as nobody:
        for route in ASKED:
            answer = ask(nobody, route)
            assert is_problem(answer, 401, "unauthenticated"), route.path
            assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("route", ASKED, ids=lambda route: f"{route.method} {route.path}")
def test_nobody_is_let_in_with_a_token_that_is_none_or_has_expired(scene: Scene, route: Route) -> None:
    """The user may do everything: it is the token that isn't valid. Tries are counted by address, so each route has one
    of its own."""
    give(scene.admin, "somebody", all_but(()))
    right = scene.user.headers["authorization"].removeprefix("Bearer ")
    wrong = wrong_authorizations(scene.admin, "somebody", right)
    method, path, asked = request_of(route)
    number = ASKED.index(route)
    transport = httpx.HTTPTransport(local_address=f"127.0.1.{number + 1}", verify=TLS)
    with httpx.Client(transport=transport, base_url=scene.gateway.url, timeout=WAIT_S) as stranger:
        for said in wrong:
            asked["headers"] = {**asked.get("headers", {}), "Authorization": said}
            answer = stranger.request(method, path, **asked)
            assert is_problem(answer, 401, "unauthenticated"), said


def test_everybody_sees_whether_it_is_up(scene: Scene) -> None:
    with ask_as(scene.gateway) as nobody:
        for route in OF_GATEWAY:
            if route.rights.public:
                assert ask(nobody, route).is_success, route.path
        assert nobody.get("/readyz").json() == {"status": "ready"}
    assert scene.admin.get("/readyz").json()["degraded"] is not None


@pytest.mark.parametrize("route", WITH_RIGHTS, ids=lambda route: f"{route.method} {route.path}")
def test_each_route_is_refused_without_its_right(scene: Scene, route: Route) -> None:
    give(scene.admin, "somebody", all_but(route.rights.each))
    answer = ask(scene.user, route)
    assert is_problem(answer, 403, "forbidden")
    (needed, *_) = [resource_of(right) for right in route.rights.each]
    assert needed in answer.json()["detail"]


@pytest.mark.parametrize("route", BY_USERS, ids=lambda route: f"{route.method} {route.path}")
def test_each_route_is_served_with_its_right_and_refused_where_that_is_denied(scene: Scene, route: Route) -> None:
    rights = route.rights.each
    for enough in enough_for(rights):
        give(scene.admin, "somebody", enough)
        assert is_let_in(ask(scene.user, route)), enough
    give(scene.admin, "somebody", denied(rights))
    assert is_problem(ask(scene.user, route), 403, "forbidden")


def test_what_super_users_do_nobody_else_may(scene: Scene) -> None:
    give(scene.admin, "somebody", all_but(()))
    for route in FOR_SUPER_USERS:
        assert is_problem(ask(scene.user, route), 403, "forbidden"), route.path
        assert is_let_in(ask(scene.admin, route)), route.path


def test_every_right_is_by_a_name_in_the_path_or_the_query() -> None:
    for route in OF_GATEWAY:
        names = {*route.within, *route.names}
        assert {right.of for right in route.rights.each if right.of} <= names, route.path
        assert route.rights.public or route.rights.each or route.rights.by_handler or route in KNOWN_ONLY, route.path


KNOWN_ONLY = (routes.BROKER, routes.LOG_POSITION, OWN_ACCESS)
"""Any user may ask for these: they say nothing of a topic, and of users nothing but of who asks."""


def test_a_disabled_user_and_an_expired_token_are_nobody(scene: Scene) -> None:
    give(scene.admin, "somebody", all_but(()))
    expired = scene.admin.post("/v1/users/somebody/tokens", json={"expires_ms": LONG_AGO_MS}).json()["token"]
    with ask_as(scene.gateway, expired) as late:
        assert is_problem(late.get("/v1/topics"), 401, "unauthenticated")
    assert scene.user.get("/v1/topics").is_success
    scene.admin.put("/v1/users/somebody", json={"status": "disabled"})
    try:
        assert is_problem(scene.user.get("/v1/topics"), 403, "forbidden")
        assert is_problem(scene.user.get("/v1/broker"), 403, "forbidden")
    finally:
        scene.admin.put("/v1/users/somebody", json={"status": "enabled"})
    assert scene.user.get("/v1/topics").is_success


def test_each_right_of_a_route_is_needed(scene: Scene) -> None:
    for route in BY_USERS:
        for lacking in route.rights.each:
            if len(route.rights.each) > 1:
                give(scene.admin, "somebody", all_but([lacking]))
                method, path, asked = request_of(route)
                asked["params"] |= {right.of: NAMES[right.of] for right in route.query_rights}
                answer = scene.user.request(method, path, **asked)
                assert is_problem(answer, 403, "forbidden"), (route.path, lacking)
                assert resource_of(lacking) in answer.json()["detail"]
