"""SQL: an editor, the tables, and the rows of a statement as a table, a chart or a file."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

from starlette.responses import Response

from lakemq.client.sql_request import TIMEOUT_MS, TRUNCATED
from lakemq.client.transport import Answer
from lakemq.console.spreadsheet import without_formulas
from lakemq.console.sql_examples import EXAMPLES
from lakemq.console.sql_result import CELL_CHARACTERS_MAX, Result, result_of
from lakemq.console.visit import Visit
from lakemq.console.words import Words, status_of, words_for
from lakemq.model.errors import InvalidRequest, InvalidSql, LakemqError
from lakemq.web.gone import client_gone

STATEMENT_CHARACTERS_MAX = 256 * 1024
"""The jobs take fewer, and say how many."""
PAGE_ROWS_MAX = 5_000
"""As many as a chart has: what is larger is for files."""
ANSWER_S = 10.0
"""Beside what a statement may take."""
GONE_STATUS = 499
FILES = {"csv": "text/csv; charset=utf-8", "parquet": "application/vnd.apache.parquet"}
_WORDS = {
    "invalid_sql": ("The statement can't be run", ""),
    "forbidden": (
        "You may not run this statement",
        "An administrator can allow it: lakemq acl add, with Sql on Lake:messages.",
    ),
    "request_timeout": (
        "The statement took too long, and was cancelled",
        "Give it more seconds, or let it read less: one topic, or a shorter time.",
    ),
    "flow_control": ("You have reached your limit of running statements", "Wait until one has ended, or cancel it."),
    "busy": ("The limit of running statements is reached", "Wait until one has ended, then run yours again."),
    "over_quota": ("Your quota is used up", "Wait for the time it names, then run it again."),
    "unreachable": ("The jobs that run SQL don't answer", "Check that `lakemq jobs` is running, then run it again."),
    "broker_unavailable": ("A broker doesn't answer", "The overview says which one. Live views need all brokers."),
}


async def show(visit: Visit) -> Response:
    """The editor, and the tables beside it."""
    return await _page(visit, None)


async def _page(visit: Visit, ran: dict[str, Any] | None, status: int = 200) -> Response:
    who = await visit.who()
    away, tables, bounds, complete = "", [], {}, True
    try:
        found = await visit.broker.sql_tables()
        tables, bounds, complete = found["tables"], found["bounds"], found["complete"]
    except LakemqError as error:
        if error.code != "unreachable":
            raise
        away = error.detail
    names = {each["table"] for each in tables}
    return visit.page(
        "sql.html",
        status,
        away=away,
        tables=tables,
        bounds=bounds,
        complete=complete,
        rows_max=min(bounds.get("rows_max", 0), PAGE_ROWS_MAX),
        known=who.user is not None,
        examples=[each for each in EXAMPLES if each.table in names],
        ran=ran,
        statement=visit.form.get("statement", ""),
        rows=visit.field("rows"),
        seconds=visit.field("seconds"),
    )


async def run(visit: Visit) -> Response:
    """The rows of a statement, for the page that asks, or as a page."""
    part = "hx-request" in visit.request.headers
    statement, began_s = _statement(visit), time.monotonic()
    problem, result, status = None, None, 200
    try:
        answer = await _ask(visit, statement, "json", visit.number("rows", 0, 1, PAGE_ROWS_MAX))
        if answer is None:
            return Response(status_code=GONE_STATUS)
        result = await asyncio.to_thread(_result, answer)
    except LakemqError as error:
        if error.code == "unauthenticated":
            raise
        problem, status = _problem(error, statement), status_of(error.code)
    ran = {
        "statement": statement,
        "result": result,
        "problem": problem,
        "took_s": time.monotonic() - began_s,
        "cell_max": CELL_CHARACTERS_MAX,
    }
    if part:
        html = await asyncio.to_thread(visit.render, "sql_result.html", ran=ran)
        return Response(html, media_type="text/html")
    return await _page(visit, ran, status)


def _result(answer: Answer) -> Result:
    return result_of(answer.json())


def _statement(visit: Visit) -> str:
    text = visit.form.get("statement", "").replace("\r\n", "\n")
    if not text.strip():
        raise InvalidRequest("write a statement first")
    if len(text) > STATEMENT_CHARACTERS_MAX:
        raise InvalidRequest("the statement is too long")
    return text.strip().removesuffix(";")


async def _ask(visit: Visit, statement: str, form: str, rows: int) -> Answer | None:
    """The jobs' answer; None: the browser no longer waits, and the statement is cancelled."""
    content: dict[str, Any] = {"statement": statement, "format": form}
    if rows:
        content["rows_max"] = rows
    timeout_ms = TIMEOUT_MS
    if seconds := visit.number("seconds", 0, 0, 86_400):
        content["timeout_ms"] = timeout_ms = seconds * 1000
    asking = asyncio.ensure_future(visit.broker.sql(json.dumps(content).encode(), timeout_ms / 1000 + ANSWER_S))
    try:
        await asyncio.wait({asking, client_gone(visit.request.scope)}, return_when=asyncio.FIRST_COMPLETED)
        return asking.result() if asking.done() else None
    finally:
        asking.cancel()


def _problem(error: LakemqError, statement: str) -> dict[str, Any]:
    title, todo = _WORDS.get(error.code, ("", ""))
    words = words_for(error.code, error.detail)
    line, column = (error.line, error.column) if isinstance(error, InvalidSql) else (None, None)
    lines = statement.split("\n")
    where = lines[line - 1][:CELL_CHARACTERS_MAX] if line is not None and 0 < line <= len(lines) else ""
    return {
        "words": Words(title, error.detail, todo) if title else words,
        "line": line,
        "column": column,
        "where": where,
        "pointer": " " * (column - 1) + "^" if where and column is not None and 0 < column <= len(where) + 1 else "",
    }


async def download(visit: Visit) -> Response:
    """The rows as a file, as many as one may have at once."""
    form = visit.field("format")
    if form not in FILES:
        raise InvalidRequest(f"a file is one of {', '.join(FILES)}")
    rows_max = (await visit.broker.sql_tables())["bounds"]["rows_max"]
    answer = await _ask(visit, _statement(visit), form, rows_max)
    if answer is None:
        return Response(status_code=GONE_STATUS)
    cut = "-cut" if answer.headers.get(TRUNCATED) == "true" else ""
    name = f"lakemq-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}{cut}.{form}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    body = await asyncio.to_thread(without_formulas, answer.body) if form == "csv" else answer.body
    return Response(body, media_type=FILES[form], headers=headers)


ROUTES = (("GET", "/sql", show), ("POST", "/sql", run), ("POST", "/sql/file", download))
