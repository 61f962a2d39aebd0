from __future__ import annotations

import errno
import logging

import pytest

from lakemq.gateway.work.counters import Counters
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
