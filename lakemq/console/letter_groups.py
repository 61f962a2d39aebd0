"""Groups that have open dead letters, by broker, of what each broker has said. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lakemq.console.looks import Look
from lakemq.console.overview import OTHER
from lakemq.console.replicas import one_of_each

GROUPS_MAX = 20
"""Of each broker."""
OPEN = "lakemq_group_dead_letters_open"


class GroupLetters(NamedTuple):
    """A group, and how many open dead letters it has; None: the broker doesn't tell."""

    group: str
    letters: float | None


class Told(NamedTuple):
    """What a broker tells. `look` None: nothing, for the reason `problem`. `others`: how many letters groups have that
    it doesn't name."""

    address: str
    look: Look | None
    groups: Sequence[GroupLetters] = ()
    others: float = 0
    problem: str = ""

    @property
    def name(self) -> str:
        """The broker's; its address where it hasn't said."""
        return self.address if self.look is None else self.look.name

    @property
    def leads(self) -> bool:
        """Whether it says so."""
        return self.look is not None and self.look.leads


class Row(NamedTuple):
    """A group's dead letters at a broker."""

    broker: str
    group: str
    letters: float | None


class LetterGroups(NamedTuple):
    """What a page shows. `more`: by broker, how many groups it leaves out; `others`: how many letters the groups have
    that it doesn't name. `silent`: brokers that don't answer, and why."""

    rows: Sequence[Row]
    more: Sequence[tuple[str, int]]
    others: Sequence[tuple[str, float]]
    silent: Sequence[tuple[str, str]]


def told_by(look: Look) -> Told:
    """What a broker's metrics tell."""
    numbers = dict(look.samples.get(OPEN, {}))
    others = numbers.pop(OTHER, 0)
    some = [GroupLetters(*each) for each in numbers.items() if each[1]]
    return Told(look.address, look, sorted(some, key=lambda each: (-(each.letters or 0), each.group)), others)


def letter_groups_of(told: Sequence[Told]) -> LetterGroups:
    """The groups with most letters first; of replicas what their leader tells."""
    answered = one_of_each(each for each in told if each.look is not None)
    rows = [Row(each.name, *group) for each in answered for group in each.groups[:GROUPS_MAX]]
    return LetterGroups(
        sorted(rows, key=lambda row: (-(row.letters or 0), row.group, row.broker)),
        [(each.name, len(each.groups) - GROUPS_MAX) for each in answered if len(each.groups) > GROUPS_MAX],
        [(each.name, each.others) for each in answered if each.others],
        [(each.address, each.problem) for each in told if each.look is None],
    )
