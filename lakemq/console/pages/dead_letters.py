"""What a group has given up on: looked through, and sent to it again."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import Response

from lakemq.console.rendering import segment
from lakemq.console.visit import Visit
from lakemq.contract import dead_letter_routes, routes
from lakemq.model.access import Action
from lakemq.model.errors import InvalidRequest, LakemqError

PAGE_ROWS = 50
STATES = ("open", "redriven", "gone")
RESULTS_SHOWN_MAX = 200
RATE_DEFAULT = 100
RATE_MAX = 100_000
_TRIED = ("invalid_filter", "invalid_request", "flow_control")
"""What the form says of a predicate that the broker doesn't take."""


async def list_letters(visit: Visit) -> Response:
    """Dead letters of a group, the newest first."""
    return await _list(visit)


async def _list(visit: Visit, problem: str = "", status: int = 200) -> Response:
    group, who = visit.path("group"), await visit.who()
    posted = visit.request.method == "POST"
    state, reason, topic, after = ("open", "", "", "") if posted else _asked(visit)
    params: dict[str, str | int] = {"max": PAGE_ROWS}
    params |= {name: value for name, value in {"state": state, "reason": reason, "topic": topic}.items() if value}
    if after:
        params["after"] = visit.number("after", 0)
    found = await visit.broker.get(dead_letter_routes.DEAD_LETTERS.at(group), params)
    return visit.page(
        "dead_letters.html",
        status,
        group=group,
        rows=found["dead_letters"],
        following=found["next_after"],
        state=state,
        states=STATES,
        reason=reason,
        topic=topic,
        where=visit.field("where"),
        rate=visit.field("rate") or str(RATE_DEFAULT),
        problem=problem,
        may_redrive=who.may_on_group(Action.UPDATE, group),
    )


def _asked(visit: Visit) -> tuple[str, str, str, str]:
    state = visit.field("state", "open")
    if state not in ("", *STATES):
        raise InvalidRequest(f"state is one of {', '.join(STATES)}")
    return state, visit.field("reason"), visit.field("topic"), visit.field("after")


async def preview(visit: Visit) -> Response:
    """How many a redrive would send: nothing is sent yet."""
    try:
        answer = await _redrive(visit, dry_run=True)
    except LakemqError as error:
        if error.code not in _TRIED:
            raise
        return await _list(visit, error.detail, 400)
    return visit.page(
        "redrive.html",
        group=visit.path("group"),
        where=visit.field("where"),
        rate=visit.field("rate") or str(RATE_DEFAULT),
        matched=answer["matched"],
        gone=answer.get("gone", 0),
    )


async def redrive(visit: Visit) -> Response:
    """Send them."""
    answer = await _redrive(visit, dry_run=False)
    return visit.go(f"/groups/{segment(visit.path('group'))}/redrives/{segment(answer['redrive_id'])}", "redriving")


async def _redrive(visit: Visit, dry_run: bool) -> dict[str, Any]:
    content: dict[str, Any] = {"dry_run": dry_run, "rate_per_s": visit.number("rate", RATE_DEFAULT, 1, RATE_MAX)}
    if where := visit.field("where"):
        content["where"] = where
    target = routes.REDRIVE.at(visit.path("group"))
    answer = await visit.broker.ask(target, body=json.dumps(content).encode(), timeout_s=60.0)
    return answer.json()


async def progress(visit: Visit) -> Response:
    """How a redrive is."""
    await visit.who()
    target = routes.REDRIVEN.at(visit.path("redrive_id"))
    found = await visit.broker.get(target, {"max": RESULTS_SHOWN_MAX})
    return visit.page("redriven.html", group=visit.path("group"), found=found, most=RESULTS_SHOWN_MAX)


ROUTES = (
    ("GET", "/groups/{group}/dead-letters", list_letters),
    ("POST", "/groups/{group}/dead-letters", preview),
    ("POST", "/groups/{group}/dead-letters/redrive", redrive),
    ("GET", "/groups/{group}/redrives/{redrive_id}", progress),
)
