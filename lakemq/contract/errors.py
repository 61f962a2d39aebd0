"""Answers that are errors, as the tree in `lakemq.model.errors`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

from lakemq.model.errors import InvalidSql, LakemqError, NotLeader, OverQuota
from lakemq.model.names import leader_address

_SUCCESS = range(200, 300)
_ERROR_STATUS = 400
_QUOTA_CHARACTERS_MAX = 100
_REQUEST_ID_CHARACTERS_MAX = 200
_DIGITS_MAX = 9


def error_of_answer(
    status: int, content: bytes, whose: str = "", note: str = "", retry_after: str | None = None
) -> LakemqError | None:
    """The error that an answer of any status but 2xx stands for; None for such an answer.

    A gateway sends nobody elsewhere by a status of HTTP, so below 400 somebody else has answered, and nothing was done:
    a proxy with a page to log in, or that wants https.

    A code that this version knows gives that code's class; any other gives `LakemqError` with
    the answer's code. What is no problem document is described by its status. Where there are several gateways
    it says `whose` answer it is; the `note` is added. `retry_after`: its header of that name.
    """
    if status in _SUCCESS:
        return None
    if status < _ERROR_STATUS:
        text = (
            f"{whose or 'the gateway'} answered {status}, as no lakemq does, and is not followed: is a proxy between?"
        )
        error = LakemqError(f"{text} {note}" if note else text)
        error.status = status
        return error
    problem = _problem(content)
    detail = problem.get("detail") or problem.get("title")
    answered = f"{whose or 'the gateway'} answered {status}"
    text = f"{answered}: {detail}" if whose and detail else str(detail or answered)
    text = f"{text} {note}" if note else text
    error = _of_problem(problem, text, retry_after)
    error.status = status
    request_id = problem.get("request_id")
    error.request_id = request_id[:_REQUEST_ID_CHARACTERS_MAX] if isinstance(request_id, str) else None
    return error


def _of_problem(problem: dict[str, Any], text: str, retry_after: str | None) -> LakemqError:
    if problem.get("code") == NotLeader.code:
        return NotLeader(text, leader_address(problem.get("leader")))
    if problem.get("code") == OverQuota.code and isinstance(quota := problem.get("quota"), str):
        return OverQuota(text, quota[:_QUOTA_CHARACTERS_MAX], _seconds(retry_after))
    if problem.get("code") == InvalidSql.code:
        return InvalidSql(text, _number(problem.get("line")), _number(problem.get("column")))
    error = error_of_code(problem.get("code"), text)
    if retry_after is not None and error.retryable and not error.retry_after_s:
        error.retry_after_s = _seconds(retry_after)
    return error


def _number(said: object) -> int | None:
    return said if type(said) is int else None


def _seconds(retry_after: str | None) -> int:
    """How long to wait; a second where it isn't said, or makes no sense."""
    text = retry_after or ""
    return max(int(text), 1) if text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX else 1


def error_of_code(code: object, detail: str) -> LakemqError:
    """The error of a stable code, as answers name it: of the kind that gives itself that code."""
    if not isinstance(code, str):
        return LakemqError(detail)
    by_code = {kind.code: kind for kind in _kinds(LakemqError) if "code" in vars(kind)}
    error = by_code.get(code, LakemqError)(detail)
    error.code = code
    return error


def _kinds(kind: type[LakemqError]) -> Iterator[type[LakemqError]]:
    """All kinds below it, at any depth."""
    for each in kind.__subclasses__():
        yield each
        yield from _kinds(each)


def _problem(content: bytes) -> dict[str, Any]:
    try:
        problem = json.loads(content)
    except ValueError:
        return {}
    return cast("dict[str, Any]", problem) if isinstance(problem, dict) else {}
