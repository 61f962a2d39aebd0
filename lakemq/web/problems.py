"""Errors as RFC 9457 problems: the one place that knows which code has which HTTP status."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

import orjson

from lakemq.contract.forms import JSON
from lakemq.model.errors import LakemqError
from lakemq.web.request_id import HEADER, about, request_id_of

logger = logging.getLogger(__name__)

_SHORT_OF = {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS}
STATUS: dict[str, int] = {
    "invalid_request": 400,
    "invalid_topic": 400,
    "invalid_arrow": 400,
    "invalid_filter": 400,
    "invalid_sql": 400,
    "wrong_message_type": 400,
    "offset_beyond_end": 400,
    "unauthenticated": 401,
    "forbidden": 403,
    "wrong_origin": 403,
    "read_only_topic": 403,
    "not_found": 404,
    "topic_not_found": 404,
    "user_not_found": 404,
    "token_not_found": 404,
    "queue_not_found": 404,
    "message_not_found": 404,
    "transaction_not_found": 404,
    "redrive_not_found": 404,
    "sink_not_found": 404,
    "part_not_found": 409,
    "group_not_found": 404,
    "request_not_found": 404,
    "schema_not_found": 404,
    "method_not_allowed": 405,
    "client_not_found": 404,
    "group_in_use": 409,
    "group_model_differs": 409,
    "consume_disabled": 409,
    "transaction_resolved": 409,
    "already_delivered": 409,
    "receipt_expired": 409,
    "log_replaced": 409,
    "incompatible_schema": 409,
    "schema_changed": 409,
    "fenced": 409,
    "epoch_diverged": 409,
    "not_in_sync": 409,
    "leader_lives": 409,
    "position_gone": 410,
    "request_too_slow": 408,
    "message_too_large": 413,
    "unsupported_media_type": 415,
    "not_leader": 421,
    "wrong_host": 421,
    "idempotency_mismatch": 422,
    "flow_control": 429,
    "log_damaged": 503,
    "lake_unreadable": 503,
    "store_unwritable": 503,
    "not_enough_replicas": 503,
    "busy": 503,
    "broker_unavailable": 503,
    "request_timeout": 504,
    "not_confirmed": 504,
    "internal": 500,
}
RETRY_AFTER_S = {
    **dict.fromkeys(("not_enough_replicas", "busy", "broker_unavailable", "flow_control"), b"1"),
    "store_unwritable": b"5",
}
DETAIL_CHARACTERS_MAX = 1000
MEDIA_TYPE = b"application/problem+json"
_JSON = (b"content-type", JSON.encode())

Headers = list[tuple[bytes, bytes]]


class Answer(NamedTuple):
    """A whole HTTP answer."""

    status: int
    headers: Headers
    body: bytes | memoryview


def json_answer(body: bytes) -> Answer:
    """200, with JSON."""
    return Answer(200, [_JSON], body)


def make_problem(
    code: str,
    detail: str,
    extra: Headers | None = None,
    members: Mapping[str, str | int] | None = None,
    retry_after_s: int = 0,
) -> Answer:
    """The answer for an error's code, with headers and members of the document beside those that all have.
    `retry_after_s`: where it is known better than by the code."""
    status = STATUS[code]
    body = orjson.dumps(
        {
            "type": f"urn:lakemq:problem:{code}",
            "title": HTTPStatus(status).phrase,
            "status": status,
            "detail": detail[:DETAIL_CHARACTERS_MAX].encode("utf-8", "replace").decode(),
            "code": code,
            **(members or {}),
        }
    )
    headers = [(b"content-type", MEDIA_TYPE), *(extra or [])]
    if code == "message_too_large":
        # The rest of the body isn't worth reading.
        headers.append((b"connection", b"close"))
    if code == "unauthenticated":
        headers.append((b"www-authenticate", b"Bearer"))
    if retry_after_s:
        headers.append((b"retry-after", b"%d" % retry_after_s))
    elif code in RETRY_AFTER_S:
        headers.append((b"retry-after", RETRY_AFTER_S[code]))
    return Answer(status, headers, body)


def to_bytes(answer: Answer, close: bool = False) -> bytes:
    """The answer as it goes over a connection."""
    headers = [*answer.headers, (b"content-length", b"%d" % len(answer.body))]
    if close:
        headers.append((b"connection", b"close"))
    status = HTTPStatus(answer.status)
    lines = [b"HTTP/1.1 %d %b" % (status, status.phrase.encode()), *(b"%b: %b" % header for header in headers)]
    return b"\r\n".join([*lines, b"", bytes(answer.body)])


def identified(answer: Answer, scope: Any) -> Answer:
    """A problem with its request's id, in the document and as a header."""
    request_id = request_id_of(scope).encode()
    body = b'%b,"request_id":"%b"}' % (bytes(answer.body)[:-1], request_id)  # nothing in an id has to be escaped
    return Answer(answer.status, [*answer.headers, (HEADER, request_id)], body)


def answer_to(error: Exception, count: Callable[[str], None], scope: Any = None) -> Answer:
    """The answer for whatever went wrong in that request; `count` is told its code. An error that is none of ours is
    said in the log. What the machine is short of for a moment, as descriptors when a file of the log is opened, is no
    fault of the gateway's: that is `busy`."""
    scope = {} if scope is None else scope
    if isinstance(error, LakemqError):
        count(error.code)
        closing = [(b"connection", b"close")] if error.closes else None
        problem = make_problem(error.code, error.detail, closing, error.members, error.retry_after_s)
        return identified(problem, scope)
    if isinstance(error, OSError) and error.errno in _SHORT_OF:
        logger.warning("a request was refused: %s", error, extra=about(scope))
        code, detail = "busy", f"the machine is short of something: {os.strerror(error.errno or 0)}"
    else:
        logger.error("a request failed", exc_info=error, extra=about(scope))
        code, detail = "internal", "an unexpected error; the gateway's log has more"
    count(code)
    return identified(make_problem(code, detail), scope)
