"""Open dead letters by group and cause: of one group, or of those that have most, at all brokers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from starlette.responses import Response

from lakemq.console.asked import Broker
from lakemq.console.causes import Causes
from lakemq.console.letter_groups import GroupLetters, LetterGroups, Told, letter_groups_of, told_by
from lakemq.console.side_by_side import ANSWER_S, LATE, side_by_side
from lakemq.console.visit import Visit
from lakemq.contract import dead_letter_routes
from lakemq.model.access import Action, Kind, Resource
from lakemq.model.errors import LakemqError

LETTERS_MAX, GROUP_LETTERS_MAX = 5_000, 1_000
"""The newest letters that are counted: of one group by itself, and of each of several."""
LETTERS_PAGE = 1_000
GROUPS_AT_ONCE = 2
"""At each broker."""
LOOK_S = 4.0
"""Counting ends after that time too."""
_READS = (Action.GET, Action.SUB)
_REFUSED = "This broker doesn't take your token."


class Looked(NamedTuple):
    """How far a group's letters at a broker were counted. `problem`: why they weren't."""

    group: str
    letters: int = 0
    complete: bool = False
    problem: str = ""
    broker: str = ""


async def show_causes(visit: Visit) -> Response:
    """Of one group, on a page of their own, of which that of its dead letters takes them."""
    await visit.who()
    group, causes, end_s = visit.path("group"), Causes(), time.monotonic() + LOOK_S
    looked = await _count(visit.broker, Looked(group), causes, LETTERS_MAX, end_s)
    return _page(visit, causes, [looked], {"": visit.broker.address}, group)


async def show_groups(visit: Visit) -> Response:
    """The groups that have dead letters."""
    found, addresses = await _groups(visit)
    return visit.page(
        "letter_groups.html", found=found, addresses=addresses, several=len(addresses) + len(found.silent) > 1
    )


async def show_all_causes(visit: Visit) -> Response:
    """Of the groups with most dead letters, on a page of their own, of which that of all groups takes them."""
    found, addresses = await _groups(visit)
    causes, end_s = Causes(), time.monotonic() + LOOK_S
    turns = {name: asyncio.Semaphore(GROUPS_AT_ONCE) for name in addresses}

    async def count(name: str, group: str) -> Looked:
        broker, begun = visit.asked.brokers[addresses[name]], Looked(group, broker=name)
        async with turns[name]:
            try:
                who = await broker.who()
                if not any(who.might(action, Resource(Kind.GROUP, group)) for action in _READS):
                    return begun._replace(problem="you may not see its dead letters")
                return await _count(broker, begun, causes, GROUP_LETTERS_MAX, end_s)
            except LakemqError as error:
                return begun._replace(problem=error.detail)

    looked = await asyncio.gather(*(count(each.broker, each.group) for each in found.rows))
    return _page(visit, causes, looked, addresses, silent=found.silent)


def _page(
    visit: Visit,
    causes: Causes,
    looked: Sequence[Looked],
    addresses: Mapping[str, str],
    group: str = "",
    silent: Sequence[tuple[str, str]] = (),
) -> Response:
    return visit.page(
        "causes.html",
        group=group,
        causes=causes.most(),
        more=max(len(causes) - len(causes.most()), 0),
        letters=sum(each.letters for each in looked),
        partly=[each for each in looked if not each.complete and not each.problem],
        failed=[each for each in looked if each.problem],
        addresses=addresses,
        several=len(addresses) + len(silent) > 1,
        silent=silent,
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


async def _groups(visit: Visit) -> tuple[LetterGroups, dict[str, str]]:
    """The groups that have open dead letters, and by the name of each broker that told them its address: of the broker
    that is looked at, the one that was chosen."""
    await visit.who()
    told = await side_by_side(visit.asked.brokers.values(), lambda each: _told(visit, each), _late)
    here = visit.broker.address
    known = [each for each in told if each.look is not None]
    addresses: dict[str, str] = {}
    for each in sorted(known, key=lambda each: (each.address != here, not each.leads)):
        addresses.setdefault(each.name, each.address)
    return letter_groups_of(told), addresses


def _late(broker: Broker) -> Told:
    return Told(broker.address, None, problem=LATE)


async def _told(visit: Visit, broker: Broker) -> Told:
    """As the broker's metrics say. To whom it tells none: the groups that policies name."""
    try:
        who = await broker.who()
        look = (await visit.watches.pair_of(broker.address)).now
    except LakemqError as error:
        return Told(broker.address, None, problem=_REFUSED if error.code == "unauthenticated" else error.detail)
    if look.problem:
        return Told(broker.address, None, problem=look.problem)
    if look.silent:
        return Told(broker.address, look, [GroupLetters(each, None) for each in who.named(_READS, Kind.GROUP)[0]])
    return told_by(look)


ROUTES = (
    ("GET", "/dead-letters", show_groups),
    ("GET", "/dead-letters/causes", show_all_causes),
    ("GET", "/groups/{group}/dead-letters/causes", show_causes),
)
