"""Messages: one search, by id, key, tag, property, text or a predicate; in the log, and then in the lake."""

from __future__ import annotations

from typing import Any, NamedTuple

from starlette.responses import RedirectResponse, Response

from lakemq.console import shown
from lakemq.console.pages.all_topics import search_all
from lakemq.console.rendering import segment
from lakemq.console.sought import LAKE_MS_MAX, Sought, request_of, rows_of
from lakemq.console.visit import Visit
from lakemq.contract import find_routes, routes, waiting_routes
from lakemq.model.access import Action, Kind
from lakemq.model.errors import InvalidRequest, LakemqError

PAGE_ROWS = 50
ANSWER_S = 30.0
WAITING_MAX = 500
_MISTAKES = ("invalid_topic", "topic_not_found", "invalid_filter", "invalid_request")
"""What the form says of what the broker doesn't take."""
_WHY_NOT = {
    "unreachable": "No jobs answer SQL, so nothing older was searched.",
    "forbidden": "You may not use SQL, so nothing older was searched.",
    "request_timeout": f"The lake took longer than {LAKE_MS_MAX // 1000} s. Give a shorter time, then search again.",
}


class Found(NamedTuple):
    """`said`: which part of time was searched. `warning`: what was not. `following`: the fields with which the search
    goes on; None: all of it is done. `waiting`: id and state of messages that no group gets yet."""

    rows: list[dict[str, Any]]
    said: str
    warning: str = ""
    following: dict[str, Any] | None = None
    waiting: tuple[tuple[str, str], ...] = ()


async def search(visit: Visit) -> Response:
    """The form, and what it finds."""
    who = await visit.who()
    if message_id := visit.field("id"):
        return RedirectResponse(f"/messages/{segment(message_id)}", 303)
    values = {name: visit.field(name) for name in ("topic", *_CRITERIA, "since", "until")}
    found, problem, status = None, "", 200
    if any(values.values()):
        try:
            found = await _found(visit, values)
        except LakemqError as error:
            if error.code not in _MISTAKES:
                raise
            problem, status = error.detail, 400
    fields = {name: value for name, value in values.items() if value}
    may_send = who.may_some(Action.PUB, Kind.TOPIC)
    shown_now = {"values": values, "fields": fields, "found": found, "problem": problem, "may_send": may_send}
    return visit.page("find.html", status, **shown_now)


_CRITERIA = ("key", "tag", "property", "text", "where")


async def _found(visit: Visit, values: dict[str, str]) -> Found:
    sought = _sought(values)
    before = visit.number("before", 0) if visit.field("before") else None
    if sought.is_by_key_alone:
        return await _by_key(visit, sought)
    if visit.field("in") == "lake" and before is not None:
        # The gateway says whether the predicate is one: it stands in the statement as it is.
        await _in_log(visit, sought, 0)
        return await _in_lake(visit, sought, before, Found([], ""))
    answer = await _in_log(visit, sought, before)
    rows, since = answer["messages"], shown.moment(answer["searched_from_ms"])
    said = f"Searched the log back to {since}." if answer["searched_from_ms"] else "The log has nothing there."
    if answer["next_before"] is not None:
        return Found(rows, said, following={"before": answer["next_before"]})
    if answer["log_begin"] == 0 or answer["reached"] > answer["log_begin"]:
        return Found(rows, f"{said} That is all there is.")
    left = answer["log_begin"] if before is None else min(before, answer["log_begin"])  # retention goes on meanwhile
    found = Found(rows, said, following={"before": left, "in": "lake"})
    return found if len(rows) >= PAGE_ROWS else await _in_lake(visit, sought, left, found)


def _sought(values: dict[str, str]) -> Sought:
    begin_ms, end_ms = (_time_ms(values[name]) for name in ("since", "until"))
    key, tag, prop, text, where = (values[name] for name in _CRITERIA)
    sought = Sought(values["topic"], key, tag, prop, text, where, begin_ms, end_ms)
    if not sought.topic and not sought.is_by_key_alone:
        raise InvalidRequest("say which topic to search, or give a message's id, or only a key to search all topics")
    return sought


def _time_ms(text: str) -> int | None:
    found = shown.parse_moment(text) if text else None
    if text and found is None:
        raise InvalidRequest(f"write a time as 2026-01-31T12:00:00, in UTC, not as {text[:40]!r}")
    return found


async def _in_log(visit: Visit, sought: Sought, before: int | None) -> dict[str, Any]:
    params = sought.params(before, PAGE_ROWS)
    return await visit.broker.get(find_routes.SEARCH.at(sought.topic), params, timeout_s=ANSWER_S)


async def _in_lake(visit: Visit, sought: Sought, before: int, found: Found) -> Found:
    """Go on in the lake, below a position. What doesn't work there is said beside what was found before."""
    most = PAGE_ROWS - len(found.rows)
    try:
        broker = str((await visit.broker.describe())["name"])
        statement = sought.statement(broker, before, most + 1)
        answer = await visit.broker.sql_of_page(request_of(statement, most + 1), LAKE_MS_MAX / 1000 + ANSWER_S)
        rows = rows_of(answer.json())
    except LakemqError as error:
        if error.code == "unauthenticated":
            raise
        why = _WHY_NOT.get(error.code, f"The lake was not searched: {error.detail}")
        return Found(found.rows, found.said, why, {"before": before, "in": "lake"})
    here, more = rows[:most], len(rows) > most
    said = f"{found.said} Searched the lake, which has what is older"
    if not more:
        return Found([*found.rows, *here], f"{said}: that is all there is.")
    reached = here[-1]
    said = f"{said}, back to {shown.moment(reached['store_time_ms'])}."
    return Found([*found.rows, *here], said, following={"before": reached["position"], "in": "lake"})


async def _by_key(visit: Visit, sought: Sought) -> Found:
    """The index of keys has the log and the lake, with jobs and without."""
    params: dict[str, str | int] = {"key": sought.key, "max": PAGE_ROWS}
    times = {"begin_ms": sought.begin_ms, "end_ms": sought.end_ms}
    params |= {name: value for name, value in times.items() if value is not None}
    if sought.topic:
        params["topic"] = sought.topic
        answer = await visit.broker.get(routes.MESSAGES_BY_KEY.at(), params, timeout_s=ANSWER_S)
        rows, complete, notes = answer["messages"], answer["complete"], []
    else:
        rows, complete, notes = await search_all(visit, params, PAGE_ROWS)
    if not complete:
        notes.append("Not everything was searched. There may be older messages with this key.")
    warning = " ".join(notes)
    if len(rows) < PAGE_ROWS:
        waiting, searched = await _waiting(visit, sought.topic, sought.key)
        return Found(rows, f"Searched the log and the lake by the index of keys, {searched}.", warning, None, waiting)
    oldest_ms = rows[-1]["store_time_ms"]
    # Those of the same millisecond come again; where a page has no other, it is passed over.
    until_ms = oldest_ms if rows[0]["store_time_ms"] > oldest_ms else oldest_ms - 1
    following = {"until": shown.moment(until_ms).replace(" ", "T")}
    return Found(rows, f"These are the newest {PAGE_ROWS}, back to {shown.moment(oldest_ms)}.", warning, following)


async def _waiting(visit: Visit, topic: str, key: str) -> tuple[tuple[tuple[str, str], ...], str]:
    """Messages with the key that are delayed, or halves: the index has these only once they are delivered. And whether
    all were looked at."""
    params: dict[str, str | int] = {"key": key, "max": WAITING_MAX} | ({"topic": topic} if topic else {})
    later = await visit.broker.get(waiting_routes.SCHEDULED.at(), params, timeout_s=ANSWER_S)
    halves = await visit.broker.get(waiting_routes.TRANSACTIONS.at(), params, timeout_s=ANSWER_S)
    found = [
        (str(each["message_id"]), f"is delayed until {shown.moment(each['due_ms'])}")
        for each in later["messages"]
        if topic or each.get("retry_topic") is None  # the index has the message of a retry
    ]
    found += [
        (str(each["half_id"]), f"is a half message: producer group {each['group']} hasn't committed it")
        for each in halves["transactions"]
    ]
    is_all = later["next_after"] is None and halves["next_after"] is None
    return tuple(found), "and all waiting messages" if is_all else f"and the first {WAITING_MAX} waiting messages"


ROUTES = (("GET", "/messages", search),)
