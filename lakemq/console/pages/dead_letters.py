"""What a group has given up on: looked through, kept as a file, sent to it again or discarded."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.responses import Response, StreamingResponse

from lakemq.console.asked import Broker, Params
from lakemq.console.letter_files import FORMS, LetterFile
from lakemq.console.pages.letters_of_group import reach_for_group
from lakemq.console.reached import Reached, ask_for_letters
from lakemq.console.rendering import segment
from lakemq.console.visit import Visit
from lakemq.console.work_turns import WorkTurns
from lakemq.contract import dead_letter_routes
from lakemq.contract.route import Route
from lakemq.model.access import Action
from lakemq.model.dead_letter import LetterState
from lakemq.model.errors import InvalidRequest, LakemqError

PAGE_ROWS = 50
STATES = tuple(each.value for each in LetterState)
RESULTS_SHOWN_MAX = 200
TICK = "tick-"
"""How the fields of a form begin that name letters, each by its offset among the group's."""
EXPORT_ROWS_MAX = 100_000
EXPORT_PAGE = 1_000
EXPORTS_MAX, USER_EXPORTS_MAX = 16, 2
"""So many files are written at a time; for one user."""
RATE_DEFAULT = 100
RATE_MAX = 100_000
_TRIED = ("invalid_filter", "invalid_request", "flow_control", "busy")
"""What the form says of a predicate that the broker doesn't take."""


async def list_letters(visit: Visit) -> Response:
    """Dead letters of a group, the newest first."""
    return await _list(visit)


async def _list(visit: Visit, problem: str = "", status: int = 200) -> Response:
    group, here = visit.path("group"), visit.broker.address
    posted = visit.request.method == "POST"
    asked = Asked() if posted else _asked(visit)
    params = asked.params(PAGE_ROWS)
    found = await reach_for_group(visit)
    if visit.field("after") and not posted:
        params["after"] = visit.number("after", 0)
        if len(found.by_name(here)) > 1:
            raise InvalidRequest("after is a place among the letters of one broker: which one?")

    async def letters(reached: Reached) -> Letters:
        return await _letters(reached, group, params)

    shown, refused = await ask_for_letters(found, here, group, letters)
    return visit.page(
        "dead_letters.html",
        status,
        group=group,
        shown=shown,
        refused=refused,
        silent=found.silent,
        named=visit.named_broker is not None,
        form_at=here,
        asked=asked,
        states=STATES,
        where=visit.field("where"),
        rate=visit.field("rate") or str(RATE_DEFAULT),
        problem=problem,
    )


class Letters(NamedTuple):
    """A broker's, on the page. `following`: where the next page of them begins; None: nothing is left."""

    broker: str
    address: str
    rows: Sequence[Mapping[str, Any]]
    following: int | None
    may_redrive: bool


async def _letters(reached: Reached, group: str, params: Params) -> Letters:
    found = await reached.broker.get(dead_letter_routes.DEAD_LETTERS.at(group), params)
    may_redrive = reached.who.may_on_group(Action.UPDATE, group)
    return Letters(reached.name, reached.address, found["dead_letters"], found["next_after"], may_redrive)


class Asked(NamedTuple):
    """Which letters are listed. `cause` None: whichever; empty: those without a reason."""

    state: str = LetterState.OPEN.value
    reason: str = ""
    topic: str = ""
    cause: str | None = None

    def params(self, most: int) -> dict[str, str | int]:
        """As the broker is asked for them."""
        said = {"state": self.state, "reason": self.reason, "topic": self.topic}
        cause = {} if self.cause is None else {"cause": self.cause}
        return {"max": most} | {name: value for name, value in said.items() if value} | cause

    @property
    def query(self) -> str:
        """As the page is asked for them. Without a state it would be the open ones."""
        fields = {"state": self.state, "reason": self.reason, "topic": self.topic}
        return urlencode(fields if self.cause is None else fields | {"cause": self.cause})

    @property
    def any_cause(self) -> str:
        """So for letters of whichever cause."""
        return self._replace(cause=None).query


def _asked(visit: Visit) -> Asked:
    state = visit.field("state", "open")
    if state not in ("", *STATES):
        raise InvalidRequest(f"state is one of {', '.join(STATES)}")
    cause = visit.field("cause") if "cause" in visit.request.query_params else None
    return Asked(state, visit.field("reason"), visit.field("topic"), cause)


async def export(visit: Visit) -> Response:
    """Those that are listed, as a file that is written while it is read."""
    form = visit.field("format")
    if form not in FORMS:
        raise InvalidRequest(f"a file is one of {', '.join(FORMS)}")
    group = visit.path("group")
    broker = visit.named_broker or visit.broker
    who = await broker.who()
    name = "" if who.user is None else who.user.name
    params = _asked(visit).params(EXPORT_PAGE)
    turn = _EXPORTS.turn(name)
    # Its first page, so that what the broker refuses is a page that says so.
    first = await broker.get(dead_letter_routes.DEAD_LETTERS.at(group), params)
    headers = {"Content-Disposition": f'attachment; filename="dead-letters-{segment(group)}.{form}"'}
    written = _in_turn(turn, _written(broker, group, params, first, LetterFile(form)))
    return StreamingResponse(written, media_type=FORMS[form], headers=headers)


async def _in_turn(turn: AbstractAsyncContextManager[None], written: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async with turn:
        async for part in written:
            yield part


async def _written(
    broker: Broker, group: str, params: dict[str, str | int], page: dict[str, Any], file: LetterFile
) -> AsyncIterator[bytes]:
    """The file, a page at a time. Where the broker fails the connection is cut, so that no part looks like all."""
    yield file.head
    rows = 0
    while True:
        yield file.rows(page["dead_letters"])
        rows += len(page["dead_letters"])
        if page["next_after"] is None:
            return
        if rows >= EXPORT_ROWS_MAX:
            yield file.cut(rows)
            return
        following = params | {"after": page["next_after"]}
        page = await broker.get(dead_letter_routes.DEAD_LETTERS.at(group), following)


_EXPORTS = WorkTurns(EXPORTS_MAX, USER_EXPORTS_MAX, "exports of dead letters")


async def preview(visit: Visit) -> Response:
    """How many a redrive would send, or a discard take: nothing is done yet."""
    discards = visit.field("discard") == "1"
    try:
        answer = await (_discard(visit, dry_run=True) if discards else _redrive(visit, dry_run=True))
    except LakemqError as error:
        if error.code not in _TRIED:
            raise
        return await _list(visit, error.detail, 400)
    return visit.page(
        "letters_counted.html",
        discards=discards,
        group=visit.path("group"),
        where=_where(visit),
        ticked=len(_ticked(visit)),
        rate=visit.field("rate") or str(RATE_DEFAULT),
        matched=answer["matched"],
        gone=answer.get("gone", 0),
        last=answer.get("last", 0),
    )


async def redrive(visit: Visit) -> Response:
    """Send them."""
    answer = await _redrive(visit, dry_run=False)
    where = f"/groups/{segment(visit.path('group'))}/redrives/{segment(answer['redrive_id'])}"
    at = urlencode({"at": visit.broker.address})
    return visit.go(where if len(visit.asked.brokers) == 1 else f"{where}?{at}", "redriving")


async def discard(visit: Visit) -> Response:
    """Give up for good those that were counted, and none that has died since."""
    answer = await _discard(visit, dry_run=False, up_to=visit.number("last", 0, 0, 2**53))
    done = "discarded" if answer["discarded"] == answer["matched"] else "discarded-some"
    return visit.go(f"/groups/{segment(visit.path('group'))}/dead-letters", done)


async def _discard(visit: Visit, dry_run: bool, up_to: int | None = None) -> dict[str, Any]:
    content: dict[str, Any] = {"dry_run": dry_run} | ({"where": where} if (where := _where(visit)) else {})
    content |= {} if up_to is None else {"up_to": up_to}
    return await _ask(visit, dead_letter_routes.DISCARD, content)


async def _redrive(visit: Visit, dry_run: bool) -> dict[str, Any]:
    content: dict[str, Any] = {"dry_run": dry_run, "rate_per_s": visit.number("rate", RATE_DEFAULT, 1, RATE_MAX)}
    if where := _where(visit):
        content["where"] = where
    return await _ask(visit, dead_letter_routes.REDRIVE, content)


async def _ask(visit: Visit, route: Route, content: dict[str, Any]) -> dict[str, Any]:
    target = route.at(visit.path("group"))
    answer = await visit.broker.ask(target, body=json.dumps(content).encode(), timeout_s=60.0)
    return answer.json()


def _ticked(visit: Visit) -> list[int]:
    """The offsets of the letters that are ticked. Raises `InvalidRequest`."""
    names = [name.removeprefix(TICK) for name in visit.form if name.startswith(TICK)]
    if not all(name.isascii() and name.isdigit() and len(name) < 19 for name in names):
        raise InvalidRequest("this form names letters that can't be")
    return sorted({int(name) for name in names})


def _where(visit: Visit) -> str:
    """The predicate; of letters that are ticked, that it is those."""
    where, ticked = visit.field("where"), _ticked(visit)
    if not ticked:
        return where
    chosen = f"queue_offset IN ({', '.join(map(str, ticked))})"
    return f"(\n{where}\n) AND {chosen}" if where else chosen  # a comment ends with its line


async def progress(visit: Visit) -> Response:
    """How a redrive is."""
    broker = visit.named_broker or visit.broker
    await broker.who()
    target = dead_letter_routes.REDRIVEN.at(visit.path("redrive_id"))
    offset = visit.number("offset", 0, 0, 2**31)
    found = await broker.get(target, {"offset": offset, "max": RESULTS_SHOWN_MAX})
    return visit.page(
        "redriven.html",
        group=visit.path("group"),
        found=found,
        offset=offset,
        most=RESULTS_SHOWN_MAX,
        of={"at": broker.address} if visit.named_broker else {},
        address=broker.address,
    )


ROUTES = (
    ("GET", "/groups/{group}/dead-letters", list_letters),
    ("GET", "/groups/{group}/dead-letters/export", export),
    ("POST", "/groups/{group}/dead-letters", preview),
    ("POST", "/groups/{group}/dead-letters/redrive", redrive),
    ("POST", "/groups/{group}/dead-letters/discard", discard),
    ("GET", "/groups/{group}/redrives/{redrive_id}", progress),
)
