"""What a request for SQL says, and the forms in which it is answered."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from typing import Any, cast

import orjson

from lakemq.contract.forms import ARROW, JSON
from lakemq.jobs.served.statement import Found
from lakemq.jobs.sql.connect_client import Result
from lakemq.jobs.sql.formats import rows_of, write_arrow, write_csv
from lakemq.model.errors import InvalidRequest
from lakemq.settings import SqlHttp
from lakemq.web.problems import Answer

FORMATS = ("json", "csv", "arrow")
_FIELDS = ("statement", "format", "rows_max", "timeout_ms")
_TRUNCATED = b"lakemq-truncated"


@dataclass(frozen=True)
class Wanted:
    """What a request wants."""

    statement: str
    format: str
    rows_max: int
    timeout_ms: int


def parse_wanted(body: bytes, limits: SqlHttp) -> Wanted:
    """What the body says. Raises `InvalidRequest`."""
    try:
        said: object = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidRequest("the body is no JSON") from None
    if not isinstance(said, dict):
        raise InvalidRequest("the body is an object with a statement")
    fields = cast("dict[str, object]", said)
    if unknown := fields.keys() - set(_FIELDS):
        raise InvalidRequest(f"there is no field {min(unknown)[:100]!r}; there are {', '.join(_FIELDS)}")
    statement, form = fields.get("statement"), fields.get("format", FORMATS[0])
    if not isinstance(statement, str):
        raise InvalidRequest("statement is text")
    if form not in FORMATS:
        raise InvalidRequest(f"format is one of {', '.join(FORMATS)}")
    rows_max = _number(fields, "rows_max", limits.rows, limits.rows_max)
    return Wanted(
        statement, str(form), rows_max, _number(fields, "timeout_ms", limits.timeout_ms, limits.timeout_ms_max)
    )


def _number(fields: dict[str, object], name: str, default: int, most: int) -> int:
    value = fields.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise InvalidRequest(f"{name} is a number from 1 to {most}")
    return value


def answer_of(found: Found, form: str) -> Answer:
    """The rows in that form. Raises `InvalidStatement` for types that have none."""
    result = Result(found.schema, iter(found.batches))
    if form == "json":
        kind, body = JSON, _json(found, result)
    else:
        out = io.BytesIO()
        kind, write = (ARROW, write_arrow) if form == "arrow" else ("text/csv; charset=utf-8", write_csv)
        write(result, out)
        body = out.getvalue()
    truncated = b"true" if found.truncated else b"false"
    return Answer(200, [(b"content-type", kind.encode()), (_TRUNCATED, truncated)], body)


def _json(found: Found, result: Result) -> bytes:
    columns = [{"name": name, "type": kind} for name, kind in zip(found.schema.names, found.types, strict=True)]
    content: dict[str, Any] = {"columns": columns, "rows": list(rows_of(result)), "truncated": found.truncated}
    return orjson.dumps(content, default=str, option=orjson.OPT_NON_STR_KEYS)
