"""Answers that are errors."""

from __future__ import annotations

import httpx
import pytest

from lakemq.client.errors import Unreachable, error_of
from lakemq.client.http import HttpClient
from lakemq.model.errors import LakemqError, TopicNotFound


def test_a_known_code_gives_its_class() -> None:
    problem = {"code": "topic_not_found", "detail": "no topic 'x'", "title": "t", "status": 404}
    error = error_of(httpx.Response(404, json=problem))
    assert isinstance(error, TopicNotFound)
    assert error.detail == "no topic 'x'"


def test_an_unknown_code_is_kept() -> None:
    error = error_of(httpx.Response(418, json={"code": "teapot", "title": "short and stout"}))
    assert (error.code, error.detail) == ("teapot", "short and stout")
    assert LakemqError("other").code == "internal"


@pytest.mark.parametrize("content", [b"<html>", b"[]", b"", b'{"code": 7}'])
def test_what_is_no_problem_document_is_told_by_its_status(content: bytes) -> None:
    error = error_of(httpx.Response(502, content=content))
    assert (error.code, error.detail) == ("internal", "the gateway answered 502")


def test_nobody_there_is_unreachable_and_names_the_url() -> None:
    url = "http://127.0.0.1:1"  # a port that nobody listens on
    with HttpClient(url) as client, pytest.raises(Unreachable, match=url):
        client.broker()


def test_nobody_there_is_not_ready() -> None:
    with HttpClient("http://127.0.0.1:1") as client:
        assert not client.is_ready()
