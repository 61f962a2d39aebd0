"""Errors of the clients, and answers that are errors, as the tree in `lakemq.model.errors`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import orjson

from lakemq.client.wrong_type import WrongType as WrongType
from lakemq.model.errors import LakemqError

if TYPE_CHECKING:
    import httpx

    from lakemq.client.outgoing import Message


class Unreachable(LakemqError):
    """Nothing answered: no connection, or it broke, or the time for an answer ran out.

    `sent` says whether the request may have reached the broker, and so may have been carried out:
    False when there never was a connection.
    """

    code = "unreachable"

    def __init__(self, detail: str, sent: bool = True) -> None:
        super().__init__(detail)
        self.sent = sent


class Closed(LakemqError):
    """The client is closed: it takes nothing any more."""

    code = "closed"


class SendFailed(LakemqError):
    """A producer was closed and couldn't store all that it was given. `failures`: each message that nobody
    has been told of, and why; that of `Unreachable.sent` or of code `closed` may have been stored all the same."""

    code = "send_failed"

    def __init__(self, detail: str, failures: Sequence[tuple[Message, LakemqError]] = ()) -> None:
        super().__init__(detail)
        self.failures = tuple(failures)


def error_of(response: httpx.Response) -> LakemqError:
    """The error that an answer of status ≥ 400 to the thin client stands for."""
    return error_of_answer(response.status_code, response.content)


def error_of_answer(status: int, content: bytes) -> LakemqError:
    """The error that an answer of status ≥ 400 stands for.

    A code that this version knows gives that code's class; any other gives `LakemqError` with
    the answer's code. What is no problem document is described by its status.
    """
    problem = _problem(content)
    detail = problem.get("detail") or problem.get("title")
    text = str(detail) if detail else f"the gateway answered {status}"
    return error_of_code(problem.get("code"), text)


def error_of_code(code: object, detail: str) -> LakemqError:
    """The error of a stable code, as answers name it."""
    if not isinstance(code, str):
        return LakemqError(detail)
    by_code = {kind.code: kind for kind in LakemqError.__subclasses__()}
    error = by_code.get(code, LakemqError)(detail)
    error.code = code
    return error


def _problem(content: bytes) -> dict[str, Any]:
    try:
        problem = orjson.loads(content)
    except orjson.JSONDecodeError:
        return {}
    return cast("dict[str, Any]", problem) if isinstance(problem, dict) else {}
