"""Answers that are errors."""

from __future__ import annotations

import json

import pytest

from lakemq.contract.errors import error_of_answer
from lakemq.model.errors import Busy, InvalidSql, LakemqError, NotLeader, OverQuota, TopicNotFound
from lakemq.web.problems import make_problem


def refusal_of(status: int, content: bytes, whose: str = "") -> LakemqError:
    error = error_of_answer(status, content, whose)
    assert error is not None
    return error


@pytest.mark.parametrize("status", [200, 204, 299])
def test_with_2xx_nothing_went_wrong_whatever_is_said(status: int) -> None:
    assert error_of_answer(status, b'{"code": "topic_not_found", "detail": "no topic"}') is None
    assert error_of_answer(400, b"") is not None


@pytest.mark.parametrize("status", [100, 199, 300, 302, 307, 399])
@pytest.mark.parametrize("content", [b"", b'{"code": "not_leader", "leader": "http://b:1", "detail": "go there"}'])
def test_a_status_that_no_gateway_has_is_an_error_and_nothing_of_its_body_is_believed(
    status: int, content: bytes
) -> None:
    """Regression: it was taken for success."""
    error = refusal_of(status, content)
    assert type(error) is LakemqError
    assert error.detail == f"the gateway answered {status}, as no lakemq does, and is not followed: is a proxy between?"
    noted = error_of_answer(status, content, "http://a:1", "(so)")
    assert noted is not None
    assert noted.detail.startswith(f"http://a:1 answered {status}, ")
    assert noted.detail.endswith("? (so)")


def test_a_known_code_gives_its_class() -> None:
    problem = {"code": "topic_not_found", "detail": "no topic 'x'", "title": "t", "status": 404}
    error = refusal_of(404, json.dumps(problem).encode())
    assert isinstance(error, TopicNotFound)
    assert error.detail == "no topic 'x'"


def test_an_error_has_its_answers_status_request_id_and_time_to_wait() -> None:
    answer = bytes(make_problem("busy", "too much").body)[:-1] + b',"request_id":"r-1"}'
    error = error_of_answer(503, answer, retry_after="7")
    assert isinstance(error, Busy)
    assert (error.status, error.request_id, error.retryable, error.retry_after_s) == (503, "r-1", True, 7)
    lasting = error_of_answer(404, b'{"code": "topic_not_found", "detail": "no", "request_id": 5}', retry_after="7")
    assert lasting is not None
    assert (lasting.request_id, lasting.retryable, lasting.retry_after_s) == (None, False, 0)
    assert (refusal_of(302, b"").status, LakemqError("x").status, Busy("x").request_id) == (302, None, None)


def test_an_sql_error_has_its_place() -> None:
    for said, place in (('"line": 2, "column": 7', (2, 7)), ('"line": "2"', (None, None))):
        error = refusal_of(400, f'{{"code": "invalid_sql", "detail": "no", {said}}}'.encode())
        assert isinstance(error, InvalidSql)
        assert (error.line, error.column) == place


def test_a_kind_whose_code_is_anothers_is_not_made_of_an_answer() -> None:
    """Regression: the client's own kind of `invalid_request`, which wants more than a detail, was."""

    class WantsMore(TopicNotFound):
        def __init__(self, name: str, given: str) -> None:
            super().__init__(f"{name}: {given}")

    assert type(refusal_of(404, b'{"code": "topic_not_found", "detail": "no topic"}')) is TopicNotFound
    assert WantsMore("x", "y").code == TopicNotFound.code


def test_an_unknown_code_is_kept() -> None:
    error = refusal_of(418, json.dumps({"code": "teapot", "title": "short and stout"}).encode())
    assert (error.code, error.detail) == ("teapot", "short and stout")
    assert LakemqError("other").code == "internal"


@pytest.mark.parametrize(
    ("said", "wait_s"), [("7", 7), ("0", 1), (None, 1), ("-1", 1), ("soon", 1), ("9" * 400, 1), ("\u0663", 1)]
)
def test_a_quota_that_was_reached_says_when_to_ask_again(said: str | None, wait_s: int) -> None:
    held_up = OverQuota("user ann has taken all", "bytes", 7)
    body = bytes(make_problem(held_up.code, held_up.detail, members=held_up.members).body)
    error = error_of_answer(429, body, retry_after=said)
    assert isinstance(error, OverQuota)
    assert (error.detail, error.quota, error.retry_after_s) == (held_up.detail, "bytes", wait_s)
    assert not isinstance(refusal_of(429, b'{"code": "flow_control", "detail": "too much"}'), OverQuota)


@pytest.mark.parametrize("leader", ["http://leads:1", ""])
def test_who_leads_is_said_where_it_is_known(leader: str) -> None:
    answer = make_problem("not_leader", "it follows", members=NotLeader("it follows", leader).members)
    assert ("leader" in json.loads(bytes(answer.body))) == bool(leader)
    error = refusal_of(answer.status, bytes(answer.body))
    assert isinstance(error, NotLeader)
    assert (error.detail, error.leader) == ("it follows", leader)


@pytest.mark.parametrize("content", [b"<html>", b"[]", b"", b'{"code": 7}', b"\xff\xfe"])
def test_what_is_no_problem_document_is_told_by_its_status(content: bytes) -> None:
    error = refusal_of(502, content)
    assert (error.code, error.detail) == ("internal", "the gateway answered 502")


def test_of_several_gateways_it_says_which() -> None:
    error = refusal_of(410, b'{"code": "position_gone", "detail": "gone"}', "http://b:1")
    assert (error.code, error.detail) == ("position_gone", "http://b:1 answered 410: gone")
    assert refusal_of(502, b"", "http://b:1").detail == "http://b:1 answered 502"
