"""Answers that are errors, as the tree of errors in `lakemq.model.errors`."""

from __future__ import annotations

from typing import Any, cast

import httpx
import orjson

from lakemq.model.errors import LakemqError


class Unreachable(LakemqError):
    """Nothing answered: no connection, or it broke, or the time for an answer ran out."""

    code = "unreachable"


def error_of(response: httpx.Response) -> LakemqError:
    """The error that an answer of status ≥ 400 stands for.

    A code that this version knows gives that code's class; any other gives `LakemqError` with
    the answer's code. What is no problem document is described by its status.
    """
    problem = _problem(response.content)
    code = problem.get("code")
    detail = problem.get("detail") or problem.get("title")
    text = str(detail) if detail else f"the gateway answered {response.status_code}"
    if not isinstance(code, str):
        return LakemqError(text)
    by_code = {kind.code: kind for kind in LakemqError.__subclasses__()}
    error = by_code.get(code, LakemqError)(text)
    error.code = code
    return error


def _problem(content: bytes) -> dict[str, Any]:
    try:
        problem = orjson.loads(content)
    except orjson.JSONDecodeError:
        return {}
    return cast("dict[str, Any]", problem) if isinstance(problem, dict) else {}
