"""Open dead letters by group and cause: of one group, or of those that have most, at all brokers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

from starlette.responses import Response

from lakemq.console.asked import Broker
from lakemq.console.causes import CAUSES_SHOWN_MAX, Causes
from lakemq.console.letter_groups import GroupLetters, LetterGroups, Told, letter_groups_of, told_by
from lakemq.console.pages.letters_of_group import reach_for_group
from lakemq.console.reached import (
    SEES_LETTERS,
    Brokers,
    Reached,
    ask_for_letters,
    check_sees_letters,
    reach_all,
)
from lakemq.console.side_by_side import ANSWER_S
from lakemq.console.visit import Visit
from lakemq.contract import dead_letter_routes
from lakemq.model.access import Kind
from lakemq.model.errors import LakemqError

LETTERS_MAX, GROUP_LETTERS_MAX = 5_000, 1_000
"""The newest letters that are counted: of one group by itself, and of each of several."""
LETTERS_PAGE = 1_000
GROUPS_AT_ONCE = 2
"""At each broker."""
LOOK_S = 4.0
"""Counting ends after that time too."""


class Looked(NamedTuple):
    """How far a group's letters at a broker were counted. `problem`: why they weren't."""

    group: str
    letters: int = 0
    complete: bool = False
    problem: str = ""
    broker: str = ""


async def show_causes(visit: Visit) -> Response:
    """Of one group, on a page of their own, of which that of its dead letters takes them."""
    group, found = visit.path("group"), await reach_for_group(visit)
    causes, end_s = Causes(found.by_name(visit.broker.address)), time.monotonic() + LOOK_S

    async def count(each: Reached) -> Looked:
        return await _count(each.broker, Looked(group, broker=each.name), causes, LETTERS_MAX, end_s)

    looked, refused = await ask_for_letters(found, visit.broker.address, group, count)
    failed = [Looked(group, problem=why, broker=name) for name, why in refused]
    return _page(visit, causes, [*looked, *failed], found, group)


async def show_groups(visit: Visit) -> Response:
    """The groups that have dead letters."""
    groups, found = await _groups(visit)
    return visit.page("letter_groups.html", found=groups, several=found.several)


async def show_all_causes(visit: Visit) -> Response:
    """Of the groups with most dead letters, on a page of their own, of which that of all groups takes them."""
    groups, found = await _groups(visit)
    brokers = found.by_name(visit.broker.address)
    causes, end_s = Causes(brokers), time.monotonic() + LOOK_S
    turns = {name: asyncio.Semaphore(GROUPS_AT_ONCE) for name in brokers}

    async def count(name: str, group: str) -> Looked:
        begun = Looked(group, broker=name)
        async with turns[name]:
            try:
                check_sees_letters(brokers[name], group)
                return await _count(brokers[name].broker, begun, causes, GROUP_LETTERS_MAX, end_s)
            except LakemqError as error:
                return begun._replace(problem=error.detail)

    looked = await asyncio.gather(*(count(each.broker, each.group) for each in groups.rows))
    return _page(visit, causes, looked, found)


def _page(visit: Visit, causes: Causes, looked: Sequence[Looked], found: Brokers, group: str = "") -> Response:
    every = causes.all()
    here = visit.broker.address
    return visit.page(
        "causes.html",
        group=group,
        causes=every[:CAUSES_SHOWN_MAX],
        more=max(len(every) - CAUSES_SHOWN_MAX, 0),
        letters=sum(each.letters for each in looked),
        partly=[each for each in looked if not each.complete and not each.problem],
        failed=[each for each in looked if each.problem],
        addresses={name: each.address for name, each in found.by_name(here).items()},
        several=found.several,
        silent=found.silent,
    )


async def _count(broker: Broker, begun: Looked, causes: Causes, most: int, end_s: float) -> Looked:
    """Raises `LakemqError` where the broker says nothing at all."""
    params: dict[str, str | int] = {"state": "open", "max": LETTERS_PAGE}
    target, letters = dead_letter_routes.DEAD_LETTERS.at(begun.group), 0
    while letters < most and time.monotonic() < end_s:
        page: dict[str, Any] = await broker.get(target, params, ANSWER_S)
        causes.take(begun.broker, begun.group, page["dead_letters"])
        letters += len(page["dead_letters"])
        if page["next_after"] is None:
            return begun._replace(letters=letters, complete=True)
        params["after"] = page["next_after"]
    return begun._replace(letters=letters)


async def _groups(visit: Visit) -> tuple[LetterGroups, Brokers]:
    """The groups that have open dead letters, and the brokers that were asked."""
    await visit.who()
    found = await reach_all(visit.asked, visit.watches)
    silent = [Told(address, None, problem=problem) for address, problem in found.silent]
    return letter_groups_of([*map(_told, found.answering), *silent]), found


def _told(reached: Reached) -> Told:
    """As the broker's metrics say. To whom it tells none: the groups that policies name."""
    look = reached.look
    if look.silent:
        groups = reached.who.named(SEES_LETTERS, Kind.GROUP)[0]
        return Told(look.address, look, [GroupLetters(each, None) for each in groups])
    return told_by(look)


ROUTES = (
    ("GET", "/dead-letters", show_groups),
    ("GET", "/dead-letters/causes", show_all_causes),
    ("GET", "/groups/{group}/dead-letters/causes", show_causes),
)
