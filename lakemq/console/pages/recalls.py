"""Recalling scheduled messages: those that are ticked, or all that satisfy a predicate. Asked before any is."""

from __future__ import annotations

import asyncio
import time
from typing import Any, NamedTuple

from starlette.responses import Response

from lakemq.console.visit import Visit
from lakemq.contract import routes, waiting_routes
from lakemq.model.access import Action
from lakemq.model.errors import InvalidRequest, LakemqError

ANSWER_S = 30.0
TICKED_MAX = 50
MATCHED_MAX = 500
"""So many at once by a predicate: each is a request to the broker."""
AT_ONCE = 8
"""Of these requests."""
SHOWN_MAX = 50
PAGE_ROWS = 500
LOOK_S = 20.0
"""So long what waits is looked through for a predicate."""
ID_CHARACTERS_MAX = 300
_MISTAKES = ("invalid_filter", "invalid_request", "invalid_topic")
"""What the page says of a predicate that the broker doesn't take."""


class Matched(NamedTuple):
    """Messages that satisfy a predicate and that this user may recall. `others`: so many more match, which are retries
    or of topics to which the user may not send. `more`: there are more than are recalled at once. `reached_ms`: only
    what is due until then was looked at; None: all."""

    rows: list[dict[str, Any]]
    others: int = 0
    more: bool = False
    reached_ms: int | None = None


async def ask_matching(visit: Visit) -> Response:
    """How many satisfy the predicate, and the first of them: none is recalled yet."""
    topic, where = visit.field("topic"), visit.field("where")
    problem, found, status = "", Matched([]), 200
    try:
        found = await _matching(visit, topic, where)
    except LakemqError as error:
        if error.code not in _MISTAKES:
            raise
        problem, status = error.detail, 400
    return visit.page(
        "recall_where.html",
        status,
        topic=topic,
        where=where,
        found=found,
        rows=found.rows[:SHOWN_MAX],
        problem=problem,
        most=MATCHED_MAX,
    )


async def _matching(visit: Visit, topic: str, where: str) -> Matched:
    if not where:
        raise InvalidRequest("write a predicate, or tick the messages to recall")
    who = await visit.who()
    params: dict[str, str | int] = {"where": where, "max": PAGE_ROWS} | ({"topic": topic} if topic else {})
    rows: list[dict[str, Any]] = []
    others, until_s = 0, time.monotonic() + LOOK_S
    while True:
        page = await visit.broker.get(waiting_routes.SCHEDULED.at(), params, ANSWER_S)
        here = [each for each in page["messages"] if each["recallable"] and who.may_on_topic(Action.PUB, each["topic"])]
        others += len(page["messages"]) - len(here)
        rows += here
        if len(rows) > MATCHED_MAX:
            return Matched(rows[:MATCHED_MAX], others, more=True)
        if page["next_after"] is None:
            return Matched(rows, others)
        if time.monotonic() >= until_s:
            return Matched(rows, others, reached_ms=int(str(page["next_after"]).partition("-")[0]))
        params["after"] = page["next_after"]


async def recall_matching(visit: Visit) -> Response:
    """Recall those that satisfy the predicate by now."""
    found = await _matching(visit, visit.field("topic"), visit.field("where"))
    return await _recall_all(visit, [each["message_id"] for each in found.rows])


async def ask_recall(visit: Visit) -> Response:
    """Which would be recalled: nothing is yet."""
    who = await visit.who()
    rows: list[dict[str, Any]] = []
    for message_id in _chosen(visit):
        try:
            message = await visit.broker.get(routes.MESSAGE.at(message_id))
        except LakemqError as error:
            if error.code in ("unauthenticated", "unreachable"):
                raise
            # Who may recall it need not be one who may read it: the broker says so then.
            rows.append({"message_id": message_id} | ({} if error.code == "forbidden" else {"problem": error.detail}))
            continue
        topic = str(message.get("real_topic") or message["topic"])
        rows.append({"message_id": message_id, "topic": topic, "message": message})
        if not who.may_on_topic(Action.PUB, topic):
            rows[-1]["problem"] = f"You may not: you need Pub on the topic {topic}."
    return visit.page("recall.html", rows=rows, count=sum("problem" not in each for each in rows))


async def recall(visit: Visit) -> Response:
    """Recall them, and report the outcome of each."""
    return await _recall_all(visit, _chosen(visit))


async def _recall_all(visit: Visit, message_ids: list[str]) -> Response:
    places = asyncio.Semaphore(AT_ONCE)

    async def recall_one(message_id: str) -> tuple[str, str]:
        async with places:
            try:
                await visit.broker.ask(routes.RECALL.at(message_id), timeout_s=ANSWER_S)
            except LakemqError as error:
                return message_id, shown_problem(error)
            return message_id, ""

    await visit.who()
    results = await asyncio.gather(*map(recall_one, message_ids))
    return visit.page("recalled.html", results=results, count=sum(not problem for _, problem in results))


def shown_problem(error: LakemqError) -> str:
    """Why one isn't recalled."""
    if error.code == "already_delivered":
        return "It was already delivered."
    return error.detail


def _chosen(visit: Visit) -> list[str]:
    """The ids that a form has: one in `id`, or those that are ticked, each a field of its own name."""
    names = [name for name in visit.form if name.startswith("id-")]
    found = [visit.field("id"), *(name.removeprefix("id-") for name in names)]
    chosen = [each for each in found if each]
    if not chosen:
        raise InvalidRequest("tick the messages to recall")
    if len(chosen) > TICKED_MAX or any(len(each) > ID_CHARACTERS_MAX for each in chosen):
        raise InvalidRequest(f"{TICKED_MAX} messages at most can be recalled at once")
    return chosen


ROUTES = (
    ("POST", "/waiting/recall", ask_recall),
    ("POST", "/waiting/recalled", recall),
    ("POST", "/waiting/matching", ask_matching),
    ("POST", "/waiting/matching/recalled", recall_matching),
)
