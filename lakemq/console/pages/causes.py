"""Open dead letters by group and cause: of one group, or of those that have most."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from starlette.responses import Response

from lakemq.console.causes import Causes
from lakemq.console.looks import Look
from lakemq.console.overview import OTHER
from lakemq.console.visit import Visit
from lakemq.contract import dead_letter_routes
from lakemq.model.access import Action, Kind, Resource
from lakemq.model.errors import LakemqError

LETTERS_MAX, GROUP_LETTERS_MAX = 5_000, 1_000
"""The newest letters that are counted: of one group by itself, and of each of several."""
LETTERS_PAGE = 1_000
GROUPS_MAX = 20
GROUPS_AT_ONCE = 2
LOOK_S = 4.0
"""Counting ends after that time too."""
_READS = (Action.GET, Action.SUB)


class Looked(NamedTuple):
    """How far a group's letters were counted. `problem`: why they weren't."""

    group: str
    letters: int = 0
    complete: bool = False
    problem: str = ""


class GroupLetters(NamedTuple):
    """A group, and how many open dead letters it has; None: the broker doesn't tell."""

    group: str
    letters: float | None


async def show_causes(visit: Visit) -> Response:
    """Of one group, on a page of their own, of which that of its dead letters takes them."""
    await visit.who()
    group, causes = visit.path("group"), Causes()
    looked = await _count(visit, group, causes, LETTERS_MAX, time.monotonic() + LOOK_S)
    return _page(visit, causes, [looked], group)


async def show_groups(visit: Visit) -> Response:
    """The groups that have dead letters."""
    groups, others = await _groups(visit)
    return visit.page("letter_groups.html", rows=groups[:GROUPS_MAX], more=groups[GROUPS_MAX:], others=others)


async def show_all_causes(visit: Visit) -> Response:
    """Of the groups with most dead letters, on a page of their own, of which that of all groups takes them."""
    who, (groups, _) = await visit.who(), await _groups(visit)
    causes, end_s, turn = Causes(), time.monotonic() + LOOK_S, asyncio.Semaphore(GROUPS_AT_ONCE)

    async def count(group: str) -> Looked:
        if not any(who.might(action, Resource(Kind.GROUP, group)) for action in _READS):
            return Looked(group, problem="you may not see its dead letters")
        async with turn:
            try:
                return await _count(visit, group, causes, GROUP_LETTERS_MAX, end_s)
            except LakemqError as error:
                return Looked(group, problem=error.detail)

    looked = await asyncio.gather(*(count(each.group) for each in groups[:GROUPS_MAX]))
    return _page(visit, causes, looked)


def _page(visit: Visit, causes: Causes, looked: Sequence[Looked], group: str = "") -> Response:
    return visit.page(
        "causes.html",
        group=group,
        causes=causes.most(),
        more=max(len(causes) - len(causes.most()), 0),
        letters=sum(each.letters for each in looked),
        partly=[each for each in looked if not each.complete and not each.problem],
        failed=[each for each in looked if each.problem],
    )


async def _count(visit: Visit, group: str, causes: Causes, most: int, end_s: float) -> Looked:
    """Raises `LakemqError` where the broker says nothing at all."""
    params: dict[str, str | int] = {"state": "open", "max": LETTERS_PAGE}
    letters = 0
    while letters < most and time.monotonic() < end_s:
        page: dict[str, Any] = await visit.broker.get(dead_letter_routes.DEAD_LETTERS.at(group), params)
        causes.take(group, page["dead_letters"])
        letters += len(page["dead_letters"])
        if page["next_after"] is None:
            return Looked(group, letters, True)
        params["after"] = page["next_after"]
    return Looked(group, letters)


async def _groups(visit: Visit) -> tuple[list[GroupLetters], float]:
    """The groups that have open dead letters, most first, as the broker's metrics say, and how many letters groups have
    that these don't name. To whom the broker tells none: those that policies name."""
    who = await visit.who()
    look: Look = (await visit.pair()).now
    if look.silent:
        return [GroupLetters(each, None) for each in who.named(_READS, Kind.GROUP)[0]], 0
    numbers = dict(look.samples.get("lakemq_group_dead_letters_open", {}))
    others = numbers.pop(OTHER, 0)
    some = [GroupLetters(*each) for each in numbers.items() if each[1]]
    return sorted(some, key=lambda each: (-(each.letters or 0), each.group)), others


ROUTES = (
    ("GET", "/dead-letters", show_groups),
    ("GET", "/dead-letters/causes", show_all_causes),
    ("GET", "/groups/{group}/dead-letters/causes", show_causes),
)
