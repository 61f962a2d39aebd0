"""The brokers that a page about all of them asks, and those that don't answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, NamedTuple, TypeVar

from lakemq.console.asked import Asked, Broker, Who
from lakemq.console.looks import Look, Watches
from lakemq.console.side_by_side import LATE, side_by_side
from lakemq.model.access import Action, Kind, Resource
from lakemq.model.errors import Forbidden, GroupNotFound, LakemqError

SEES_LETTERS = (Action.GET, Action.SUB)
"""Either of a group's dead letters takes one of these on the group."""
T = TypeVar("T")
_REFUSED = "This broker doesn't take your token."


class Reached(NamedTuple):
    """A replica that answers. `who`: whom it takes this user for."""

    broker: Broker
    who: Who
    look: Look

    @property
    def name(self) -> str:
        """The broker's."""
        return self.look.name

    @property
    def address(self) -> str:
        """The replica's."""
        return self.broker.address


class Brokers(NamedTuple):
    """Those that answer, in the console's order. `silent`: the addresses of the others, and why they don't."""

    answering: Sequence[Reached]
    silent: Sequence[tuple[str, str]]

    @property
    def several(self) -> bool:
        """Whether a page says what is where."""
        return len({each.name for each in self.answering}) + len(self.silent) > 1

    def by_name(self, here: str) -> dict[str, Reached]:
        """One replica of each broker: of the broker that is looked at, the one `here`, which was chosen; that one is
        first. Else its leader."""
        found: dict[str, Reached] = {}
        for each in sorted(self.answering, key=lambda each: (each.address != here, not each.look.leads)):
            found.setdefault(each.name, each)
        return found


async def reach_all(asked: Asked, watches: Watches) -> Brokers:
    """All that a console knows, asked side by side."""
    told = await side_by_side(asked.brokers.values(), lambda each: _reach(watches, each), _late)
    return Brokers(
        [each for each in told if isinstance(each, Reached)], [each for each in told if not isinstance(each, Reached)]
    )


async def reach_one(watches: Watches, broker: Broker, is_only: bool) -> Brokers:
    """That one alone. `is_only`: the console knows no others, so nobody needs its name. Raises `LakemqError` where it
    doesn't answer."""
    who = await broker.who()
    look = Look(broker.address, 0.0) if is_only else (await watches.pair_of(broker.address)).now
    return Brokers([Reached(broker, who, look)], ())


def check_sees_letters(reached: Reached, group: str) -> None:
    """Raise `Forbidden` where the broker would refuse, so that it need not be asked."""
    if not any(reached.who.might(each, Resource(Kind.GROUP, group)) for each in SEES_LETTERS):
        raise Forbidden("you may not see its dead letters")


async def ask_for_letters(
    found: Brokers, here: str, group: str, ask: Callable[[Reached], Coroutine[Any, Any, T]]
) -> tuple[list[T], list[tuple[str, str]]]:
    """What each broker that has the group answers, and by name why others don't. Raises `LakemqError` where none does
    and none is silent."""
    refused: dict[str, LakemqError] = {}

    async def one(each: Reached) -> list[T]:
        try:
            if found.several:
                check_sees_letters(each, group)
            return [await ask(each)]
        except LakemqError as error:
            refused[each.name] = error
            return []

    told = await asyncio.gather(*map(one, found.by_name(here).values()))
    answers = [answer for some in told for answer in some]
    others = {name: error for name, error in refused.items() if error.code != GroupNotFound.code}
    if not answers and not found.silent:
        raise next(iter([*others.values(), *refused.values()]))
    return answers, [(name, error.detail) for name, error in others.items()]


def _late(broker: Broker) -> tuple[str, str]:
    return broker.address, LATE


async def _reach(watches: Watches, broker: Broker) -> Reached | tuple[str, str]:
    try:
        who = await broker.who()
        look = (await watches.pair_of(broker.address)).now
    except LakemqError as error:
        return broker.address, _REFUSED if error.code == "unauthenticated" else error.detail
    return (broker.address, look.problem) if look.problem else Reached(broker, who, look)
