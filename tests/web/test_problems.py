from __future__ import annotations

import errno
import json
import logging

import pytest

from lakemq.gateway.work.counters import Counters
from lakemq.logs.formats import JsonFormatter
from lakemq.model.errors import TopicNotFound
from lakemq.web.problems import answer_to
from tests.gateway.http_client import check_problem


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (TopicNotFound("t"), 404, "topic_not_found"),
        (OSError(errno.EMFILE, "x"), 503, "busy"),
        (OSError(errno.EIO, "x"), 500, "internal"),
        (ValueError("secret"), 500, "internal"),
    ],
)
def test_every_error_is_answered_and_counted_by_its_code_and_tells_no_more(
    caplog: pytest.LogCaptureFixture, error: Exception, status: int, code: str
) -> None:
    counters = Counters()
    with caplog.at_level(logging.INFO):
        answer = answer_to(error, counters.problem)
    headers = {name.decode(): value.decode() for name, value in answer.headers}
    check_problem(answer.status, headers, bytes(answer.body))
    assert (answer.status, dict(counters.problems)) == (status, {code: 1})
    assert b"secret" not in bytes(answer.body)
    own = [record for record in caplog.records if record.name.startswith("lakemq.web")]
    assert bool(own) == (status >= 500)


def test_the_line_that_tells_of_an_error_has_the_id_that_its_answer_has(caplog: pytest.LogCaptureFixture) -> None:
    asker = type("Asker", (), {"name": "mira"})()
    parent = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    scope = {"headers": [(b"traceparent", parent)], "client": ("10.0.0.1", 1), "lakemq.caller": asker}
    answer = answer_to(ValueError("x"), Counters().problem, scope)
    (line,) = [record for record in caplog.records if record.name.startswith("lakemq.web")]
    content = json.loads(JsonFormatter().format(line))
    assert content["request_id"] == json.loads(bytes(answer.body))["request_id"]
    assert (content["user"], content["client"]) == ("mira", "10.0.0.1")
    assert content["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"
    assert content["exception"]["type"] == "ValueError"
