"""Every route of the server of the jobs, asked by all who may not, and by who may. A gateway says who asks, and that
holds for seconds: so each case has a user of its own, whose policies never change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import httpx
import pytest
from pyspark.sql import SparkSession

from lakemq.contract.jobs_routes import CANCEL, RUN
from lakemq.contract.right import Right
from lakemq.contract.route import Route
from lakemq.contract.sql_routes import CATALOG, STATEMENT
from lakemq.jobs.served.server import SqlServer
from lakemq.model.access import Action, Kind
from lakemq.settings import SqlHttp
from lakemq.testing import GatewayProcess, start_gateway
from tests.docs.rights import OF_JOBS
from tests.gateway.access.asking import (
    all_but,
    ask,
    ask_as,
    denied,
    enough_for,
    is_let_in,
    make_user,
    request_of,
    resource_of,
    token_of,
    wrong_authorizations,
)
from tests.gateway.http_client import is_problem
from tests.jobs.served.scene import WAIT_S, Scene

BY_HANDLER = {STATEMENT: (Right((Action.SQL,), Kind.LAKE),)}
"""What a request takes that `asking` makes."""
WITH_RIGHTS = [route for route in OF_JOBS if route.rights.each or route in BY_HANDLER]


class Control:
    """Jobs that keep what they were asked to do."""

    def __init__(self) -> None:
        self.done: list[tuple[str, str, str]] = []

    def describe(self) -> dict[str, Any]:
        return {"queries": [], "maintenance": {"runs": [], "jobs": []}, "replays": []}

    def check_run(self, job: str) -> None:
        """All may be run."""

    def submit(self, job: str, asked_by: str) -> str:
        self.done.append(("run", job, asked_by))
        return "1"

    def check_cancel(self, job: str) -> None:
        """And cancelled."""

    def cancel(self, job: str, asked_by: str) -> str:
        self.done.append(("cancel", job, asked_by))
        return "2"


class Closed(NamedTuple):
    """A gateway that asks everybody who he is, its administrator, the server of the jobs, and what those were asked."""

    gateway: GatewayProcess
    admin: httpx.Client
    server: SqlServer
    control: Control

    def asking(self, authorization: str = "") -> httpx.Client:
        headers = {"Authorization": authorization} if authorization else {}
        return httpx.Client(base_url=self.server.url, timeout=WAIT_S, trust_env=False, headers=headers)

    def answer(self, route: Route, name: str, *policies: dict[str, Any]) -> httpx.Response:
        """What a new user of these policies is answered."""
        with self.asking(f"Bearer {make_user(self.admin, name, *policies)}") as user:
            return ask(user, route)


@pytest.fixture(scope="module")
def closed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Closed]:
    data, control = tmp_path_factory.mktemp("every-route") / "data", Control()
    with start_gateway(data, auth__required="true") as gateway, ask_as(gateway, token_of(data)) as admin:
        server = SqlServer(spark, lambda: gateway.url, SqlHttp(), control=control)
        server.start()
        try:
            yield Closed(gateway, admin, server, control)
        finally:
            server.stop()


def rights_of(route: Route) -> tuple[Right, ...]:
    return route.rights.each or BY_HANDLER[route]


def name_of(route: Route, case: str) -> str:
    return f"{case}-{OF_JOBS.index(route)}"


def test_nobody_is_let_in_without_a_token(closed: Closed) -> None:
    before = list(closed.control.done)
    with closed.asking() as nobody:
        for route in OF_JOBS:
            answer = ask(nobody, route)
            assert is_problem(answer, 401, "unauthenticated"), route.path
            assert answer.headers["www-authenticate"] == "Bearer"
    assert closed.control.done == before


@pytest.mark.parametrize("route", OF_JOBS, ids=lambda route: f"{route.method} {route.path}")
def test_nobody_is_let_in_with_a_token_that_is_none_or_has_expired(closed: Closed, route: Route) -> None:
    """The user may do everything: it is the token that isn't valid."""
    name = name_of(route, "wrong")
    method, path, asked = request_of(route)
    before = list(closed.control.done)
    for said in wrong_authorizations(closed.admin, name, make_user(closed.admin, name, *all_but(()))):
        asked["headers"] = {**asked.get("headers", {}), "Authorization": said}
        with closed.asking() as stranger:
            assert is_problem(stranger.request(method, path, **asked), 401, "unauthenticated"), said
    assert closed.control.done == before


@pytest.mark.parametrize("route", WITH_RIGHTS, ids=lambda route: f"{route.method} {route.path}")
def test_each_route_is_served_with_its_right_alone(closed: Closed, route: Route) -> None:
    rights, before = rights_of(route), list(closed.control.done)
    answer = closed.answer(route, name_of(route, "lacks"), *all_but(rights))
    assert is_problem(answer, 403, "forbidden")
    assert resource_of(rights[0]) in answer.json()["detail"]
    assert is_problem(closed.answer(route, name_of(route, "denied"), *denied(rights)), 403, "forbidden")
    assert closed.control.done == before
    for number, enough in enumerate(enough_for(rights)):
        name = name_of(route, f"has-{number}")
        assert closed.answer(route, name, *enough).is_success, enough
        if route in (RUN, CANCEL):
            assert closed.control.done[-1][1:] == ("stats", name)


def test_a_user_who_may_not_ask_for_a_table_is_not_shown_it(closed: Closed, scene: Scene) -> None:
    """`scene`: by it there are tables."""
    del scene
    rights = BY_HANDLER[STATEMENT]
    for case, policies in (("lacks", all_but(rights)), ("denied", denied(rights))):
        answer = closed.answer(CATALOG, f"{case}-sql", *policies)
        assert is_let_in(answer)
        assert answer.json()["tables"] == [], case
    assert closed.answer(CATALOG, "has-sql", *enough_for(rights)[0]).json()["tables"] != []
