"""docs/http.md is what the contract says, and the errors of each route there are found in the code."""

from __future__ import annotations

import pytest

from lakemq.contract import find_routes, leader_routes, routes, schema_routes, user_routes
from lakemq.contract.route import Route
from lakemq.web.problems import STATUS
from tests.docs import http_page
from tests.docs.documents import ROOT
from tests.docs.route_errors import of_routes

FOUND = [
    (routes.PRODUCE, "wrong_message_type"),  # by a rule of the model
    (routes.PRODUCE, "invalid_arrow"),  # by a decoder that a table of functions names
    (routes.PULL, "lake_unreadable"),  # in a thread, of the lake
    (routes.RESOLVE, "transaction_not_found"),  # kept, and raised later
    (routes.INVISIBILITY, "receipt_expired"),
    (routes.REQUEST, "request_timeout"),
    (schema_routes.SCHEMA, "schema_not_found"),
    (leader_routes.ELECT, "leader_lives"),  # as a protocol's method says
    (user_routes.DELETE_TOKEN, "token_not_found"),
]
NOT_FOUND = [
    (routes.PRODUCE, "group_not_found"),
    (routes.HEALTH, "busy"),
    (routes.TOPICS, "topic_not_found"),
    (find_routes.SEARCH, "read_only_topic"),
]
OF_ALL = {"unauthenticated", "wrong_host", "wrong_origin", "not_found", "method_not_allowed", "request_too_slow"}
"""Answered before a route's handler is asked."""
OF_SQL = {"invalid_sql", "broker_unavailable"}


@pytest.mark.parametrize(("route", "code"), FOUND, ids=[code for _, code in FOUND])
def test_an_error_that_a_route_answers_is_found(route: Route, code: str) -> None:
    assert code in of_routes()[route]


@pytest.mark.parametrize(("route", "code"), NOT_FOUND, ids=[f"{each.path} {code}" for each, code in NOT_FOUND])
def test_an_error_that_a_route_does_not_answer_is_not(route: Route, code: str) -> None:
    assert code not in of_routes()[route]


def test_every_route_is_looked_at_and_every_code_is_found_somewhere() -> None:
    assert set(of_routes()) == set(routes.ALL)
    found = {code for codes in of_routes().values() for code in codes}
    assert set(STATUS) - found == OF_ALL | OF_SQL


def test_the_http_page_is_what_the_contract_says() -> None:
    made = http_page.page(http_page.document())
    assert (ROOT / http_page.FILE).read_text("utf-8") == made, "python -m tests.docs.http_page writes it anew"
